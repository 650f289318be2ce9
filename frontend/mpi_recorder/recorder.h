/* The memory of the recorder of MPI calls, and the work of its wrappers. These are generated;
 * pgdb/mpi_recorder/layout.py has the same structures for those who read the memory from outside.
 *
 * The path of each call is short, since a message of 8 bytes takes no longer than 100 ns. It has no
 * lock, it fills one line of the cache, and only with the fields that the function has; the reader
 * knows these from the number of the function. It does not read the counter of the processor, which
 * takes 17 ns in a virtual machine: see stamp. Each thread writes only to its own part. A reader of
 * a running process reads the number of calls twice. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 64
#define MOST_CALLS 64 /* of each thread that are kept */
#define MOST_HANDLES 128 /* of requests of one call that are kept */
#define MOST_GROUPS 1024
#define MOST_REQUESTS 16384
#define MOST_NAMES 64
#define PROBES 64 /* entries of a table that are looked at for one request */
#define PERSISTENT 0x80000000u /* bit of the number of a function whose request stays open */

/* A call, in one line of the cache. */
struct call {
  uint64_t began;   /* see stamp; of a request: the number of the thread that has this place */
  uint64_t request; /* handle that the call makes or uses; 0: none, of a request: a free place */
  uint32_t function; /* place in the table plus 1 */
  int32_t group;     /* communicator, window or file: place in the table plus 1; 0: unknown */
  int32_t peer, tag; /* peer: destination, target or root */
  int64_t count;     /* of elements or of requests */
  uint64_t datatype;
  union {
    uint64_t group_calls; /* collective calls on the communicator, this one included */
    int64_t displacement; /* of a one-sided call */
    struct {
      int32_t source, receive_tag;
    };
  };
  union {
    int64_t receive_count;
    uint64_t operation;
  };
} __attribute__((aligned(64)));

struct thread {
  uint64_t calls; /* the latest is at (calls - 1) % MOST_CALLS */
  uint64_t frame; /* address in the stack of the latest call; 0 when it has returned */
  uint64_t second, now_ns; /* of CLOCK_REALTIME; now_ns is its first reading in this second */
  int32_t tid;
  uint32_t number;
  uint64_t requests[MOST_HANDLES] __attribute__((aligned(64))); /* of the latest call */
  struct call ring[MOST_CALLS];
} __attribute__((aligned(64)));

/* A communicator, a window or a file. */
struct group {
  uint64_t handle; /* 0: never used; 1: freed */
  uint64_t identity, created, collectives;
  int32_t kind, size, remote_size, rank;
  int32_t *members, *remote; /* ranks in MPI_COMM_WORLD; null: 0 to size - 1 */
  char name[64];
};

struct name {
  char text[32];
  uint64_t handle;
};

struct memory {
  char magic[8];
  uint64_t version;
  int32_t any_source, any_tag, proc_null, root;
  uint64_t lost_requests, lost_groups, lost_threads;
  uint64_t displaced; /* requests that were ever put at another place than their first one */
  int32_t state; /* 0 before MPI_Init, 1 from its return on, 2 from MPI_Finalize's on */
  uint32_t threads;
  struct name datatypes[MOST_NAMES], operations[MOST_NAMES];
  struct thread thread[MOST_THREADS];
  struct group group[MOST_GROUPS];
  struct call request[MOST_REQUESTS];
};

enum { COMMUNICATOR = 1, WINDOW, A_FILE };

static struct memory M __attribute__((aligned(4096)));
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
static __thread struct thread *own __attribute__((tls_model("initial-exec")));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t at_exit_of_thread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Say when a call began. The clock's second, which needs no counter of the processor, is read at
 * each call, and the whole clock at the first call in a second. So the time of the first call in a
 * second is exact, and the others began after it in the same second. */
static __attribute__((noinline, cold)) void read_clock(struct thread *t, uint64_t second) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  t->second = second;
  t->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void stamp(struct thread *t) {
  uint64_t second = (uint64_t)time(NULL);
  if (!LIKELY(second == t->second)) read_clock(t, second);
}

static void thread_ends(void *slot) { __atomic_store_n(&((struct thread *)slot)->tid, 0, __ATOMIC_RELEASE); }

static void make_key(void) { pthread_key_create(&at_exit_of_thread, thread_ends); }

/* Threads beyond the last slot share one that no reader looks at. */
static __attribute__((noinline, cold)) struct thread *new_thread(void) {
  static struct thread beyond = {.number = MOST_THREADS + 1};
  pthread_once(&once, make_key);
  pthread_mutex_lock(&lock);
  struct thread *found = &beyond;
  for (uint32_t i = 0; i < MOST_THREADS; i++)
    if (M.thread[i].tid == 0) {
      found = &M.thread[i];
      found->calls = 0;
      found->frame = 0;
      found->number = i + 1;
      found->tid = (int32_t)syscall(SYS_gettid);
      if (i >= M.threads) M.threads = i + 1;
      break;
    }
  if (found == &beyond) M.lost_threads++;
  pthread_mutex_unlock(&lock);
  if (found != &beyond) pthread_setspecific(at_exit_of_thread, found);
  return own = found;
}

static inline struct thread *thread(void) {
  struct thread *t = own;
  return LIKELY(t != NULL) ? t : new_thread();
}

/* Return the entry of a call to fill in; null inside another call, which hides it. A call is inside
 * another one if its frame lies below. A frame that an exception or longjmp has left is above. */
static inline struct call *enter(struct thread *t, uint64_t frame) {
  return LIKELY(t->frame <= frame) ? &t->ring[t->calls % MOST_CALLS] : NULL;
}

/* The entry is filled in. */
static inline void begin(struct thread *t, struct call *c, uint64_t frame) {
  c->began = t->now_ns;
  __asm__ volatile("" ::: "memory");
  t->calls++;
  t->frame = frame;
}

static inline uint32_t hashed(uint64_t handle, uint32_t size) {
  return (uint32_t)((handle * 0x9e3779b97f4a7c15ull) >> 40) & (size - 1);
}

static uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdull;
  return value ^ (value >> 33);
}

/* Ranks in MPI_COMM_WORLD of a group, null if they are 0, 1, 2 … */
static int32_t *translated(MPI_Group group, int size) {
  MPI_Group world;
  if (size <= 0 || PMPI_Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS) return NULL;
  int32_t *ranks = malloc(sizeof(int32_t) * 2 * (size_t)size);
  if (ranks != NULL) {
    int same = 1;
    for (int i = 0; i < size; i++) ranks[size + i] = i;
    PMPI_Group_translate_ranks(group, size, ranks + size, world, ranks);
    for (int i = 0; i < size; i++) same &= ranks[i] == i;
    if (same) {
      free(ranks);
      ranks = NULL;
    }
  }
  PMPI_Group_free(&world);
  return ranks;
}

static uint64_t key_of(int32_t kind, uint64_t handle) {
  uint64_t key = handle ^ ((uint64_t)kind << 60);
  return key > 1 ? key : key + 2;
}

static int32_t add_group(int32_t kind, uint64_t key, MPI_Group members, MPI_Group remote, int rank, uint64_t identity) {
  pthread_mutex_lock(&lock);
  uint32_t i = hashed(key, MOST_GROUPS), n = 0;
  while (n < MOST_GROUPS && M.group[i].handle > 1) i = (i + 1) & (MOST_GROUPS - 1), n++;
  int32_t place = 0;
  if (n < MOST_GROUPS) {
    struct group *g = &M.group[i];
    place = (int32_t)i + 1;
    g->kind = kind;
    g->identity = identity;
    g->created = g->collectives = 0;
    g->rank = rank;
    g->size = g->remote_size = 0;
    g->members = g->remote = NULL;
    g->name[0] = 0;
    if (members != MPI_GROUP_NULL) {
      PMPI_Group_size(members, &g->size);
      g->members = translated(members, g->size);
    }
    if (remote != MPI_GROUP_NULL) {
      PMPI_Group_size(remote, &g->remote_size);
      g->remote = translated(remote, g->remote_size);
    }
    __asm__ volatile("" ::: "memory");
    g->handle = key;
  } else
    M.lost_groups++;
  pthread_mutex_unlock(&lock);
  return place;
}

static int32_t find_group(uint64_t key) {
  uint32_t i = hashed(key, MOST_GROUPS);
  for (uint32_t n = 0; n < MOST_GROUPS && M.group[i].handle != 0; n++, i = (i + 1) & (MOST_GROUPS - 1))
    if (M.group[i].handle == key) return (int32_t)i + 1;
  return 0;
}

static void forget_group(uint64_t key) {
  int32_t place = find_group(key);
  if (place == 0) return;
  struct group *g = &M.group[place - 1];
  pthread_mutex_lock(&lock);
  g->handle = 1;
  __asm__ volatile("" ::: "memory");
  free(g->members);
  free(g->remote);
  g->members = g->remote = NULL;
  pthread_mutex_unlock(&lock);
}

#define BITS(handle) ((uint64_t)(uintptr_t)(handle))

static void name_communicator(int32_t place, MPI_Comm comm) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  if (place && PMPI_Comm_get_name(comm, name, &length) == MPI_SUCCESS)
    memcpy(M.group[place - 1].name, name, sizeof M.group[0].name - 1);
}

static int32_t new_communicator(MPI_Comm comm, uint64_t identity) {
  MPI_Group members = MPI_GROUP_NULL, remote = MPI_GROUP_NULL;
  int is_inter = 0, rank = -1;
  if (comm == MPI_COMM_NULL || M.state != 1) return 0;
  PMPI_Comm_test_inter(comm, &is_inter);
  PMPI_Comm_group(comm, &members);
  if (is_inter) PMPI_Comm_remote_group(comm, &remote);
  PMPI_Comm_rank(comm, &rank);
  int32_t place = add_group(COMMUNICATOR, key_of(COMMUNICATOR, BITS(comm)), members, remote, rank, identity);
  name_communicator(place, comm);
  PMPI_Group_free(&members);
  if (is_inter) PMPI_Group_free(&remote);
  return place;
}

static inline int32_t communicator(MPI_Comm comm) {
  uint64_t key = key_of(COMMUNICATOR, BITS(comm));
  uint32_t i = hashed(key, MOST_GROUPS);
  if (__builtin_expect(M.group[i].handle == key, 1)) return (int32_t)i + 1;
  int32_t place = find_group(key);
  return place ? place : new_communicator(comm, 0);
}

/* All members of a communicator make the same ones from it, so they find the same identity. That of
 * an intercommunicator is not known: its other half has another parent. */
static void made_communicator(int32_t parent, MPI_Comm made) {
  if (parent == 0) return;
  struct group *g = &M.group[parent - 1];
  uint64_t identity = g->identity ? mixed(g->identity, ++g->created) : 0;
  int is_inter = 0;
  if (made == MPI_COMM_NULL) return;
  PMPI_Comm_test_inter(made, &is_inter);
  forget_group(key_of(COMMUNICATOR, BITS(made)));
  new_communicator(made, is_inter ? 0 : identity);
}

static void name_window(int32_t place, MPI_Win win) {
  char name[MPI_MAX_OBJECT_NAME + 1] = "";
  int length = 0;
  if (place && PMPI_Win_get_name(win, name, &length) == MPI_SUCCESS)
    memcpy(M.group[place - 1].name, name, sizeof M.group[0].name - 1);
}

/* The name that an MPI gives a window itself says nothing. */
static int32_t window(MPI_Win win) {
  uint64_t key = key_of(WINDOW, BITS(win));
  int32_t place = find_group(key);
  MPI_Group members;
  if (place || win == MPI_WIN_NULL || PMPI_Win_get_group(win, &members) != MPI_SUCCESS) return place;
  place = add_group(WINDOW, key, members, MPI_GROUP_NULL, -1, 0);
  PMPI_Group_free(&members);
  return place;
}

static int32_t file_of(MPI_File file) {
  uint64_t key = key_of(A_FILE, BITS(file));
  int32_t place = find_group(key);
  MPI_Group members;
  if (place || file == MPI_FILE_NULL || PMPI_File_get_group(file, &members) != MPI_SUCCESS) return place;
  place = add_group(A_FILE, key, members, MPI_GROUP_NULL, -1, 0);
  PMPI_Group_free(&members);
  return place;
}

static inline void collective(struct call *c) {
  if (c->group > 0) c->group_calls = ++M.group[c->group - 1].collectives;
}

static inline void put_request(struct call *q, const struct call *c, uint64_t handle) {
  uint64_t owner = q->began;
  q->request = 0;
  __asm__ volatile("" ::: "memory");
  *q = (struct call){.began = owner,
                     .function = c->function,
                     .group = c->group,
                     .peer = c->peer,
                     .tag = c->tag,
                     .count = c->count,
                     .datatype = c->datatype,
                     .group_calls = c->group_calls,
                     .operation = c->operation};
  __asm__ volatile("" ::: "memory");
  q->request = handle;
}

static struct call *find_request(uint64_t handle) {
  uint32_t i = hashed(handle, MOST_REQUESTS);
  for (int n = 0; n < PROBES; n++, i = (i + 1) & (MOST_REQUESTS - 1))
    if (M.request[i].request == handle) return &M.request[i];
  return NULL;
}

/* Find a place of this thread for a request. A place belongs to the thread that has used it first,
 * so that the thread can use it again without a lock. */
static __attribute__((noinline)) void place_request(struct thread *t, const struct call *c, uint64_t handle) {
  uint32_t first = hashed(handle, MOST_REQUESTS), i = first;
  pthread_mutex_lock(&lock);
  struct call *found = find_request(handle);
  for (int n = 0; n < PROBES && found == NULL; n++, i = (i + 1) & (MOST_REQUESTS - 1)) {
    struct call *q = &M.request[i];
    uint64_t owner = q->began;
    int is_free = owner == 0 || owner == t->number || owner > M.threads || M.thread[owner - 1].tid == 0;
    if (q->request == 0 && is_free) found = q;
  }
  if (found == NULL)
    M.lost_requests++;
  else {
    if (found != &M.request[first]) M.displaced++;
    found->began = t->number;
    put_request(found, c, handle);
  }
  pthread_mutex_unlock(&lock);
}

static inline void open_request(struct thread *t, struct call *c, uint64_t handle) {
  struct call *q = &M.request[hashed(handle, MOST_REQUESTS)];
  c->request = handle;
  if (LIKELY(q->began == t->number && (q->request == 0 || q->request == handle)))
    put_request(q, c, handle);
  else
    place_request(t, c, handle);
}

static inline void close_request(uint64_t handle, int always) {
  struct call *q = &M.request[hashed(handle, MOST_REQUESTS)];
  if (!LIKELY(q->request == handle)) {
    if (M.displaced == 0 || (q = find_request(handle)) == NULL) return;
  }
  if (always || !(q->function & PERSISTENT)) q->request = 0;
}

/* Return a place for the handles of the requests of a call, which MPI overwrites; null without
 * memory for them. */
static inline uint64_t *handles_of(struct thread *t, int count) {
  return LIKELY(count <= MOST_HANDLES) ? t->requests : malloc(sizeof(uint64_t) * (size_t)count);
}

static inline uint64_t *kept(struct thread *t, uint64_t *handles) {
  if (!LIKELY(handles == t->requests) && handles != NULL) memcpy(t->requests, handles, sizeof t->requests);
  return handles;
}

static inline uint64_t *handles_in_c(struct thread *t, int count, const MPI_Request *requests) {
  uint64_t *handles = handles_of(t, count);
  for (int i = 0; handles != NULL && i < count; i++) handles[i] = BITS(requests[i]);
  return kept(t, handles);
}

static uint64_t *handles_in_fortran(struct thread *t, int count, const MPI_Fint *requests) {
  uint64_t *handles = handles_of(t, count);
  for (int i = 0; handles != NULL && i < count; i++) handles[i] = BITS(PMPI_Request_f2c(requests[i]));
  return kept(t, handles);
}

static inline void free_handles(struct thread *t, uint64_t *handles) {
  if (!LIKELY(handles == t->requests)) free(handles);
}

static inline void close_at(const uint64_t *handles, int count, int at) {
  if (handles != NULL && at >= 0 && at < count) close_request(handles[at], 0);
}

static inline void close_all(const uint64_t *handles, int count) {
  for (int i = 0; handles != NULL && i < count; i++) close_request(handles[i], 0);
}

__attribute__((constructor)) static void loaded(void) {
  M.version = VERSION;
  memcpy(M.magic, "PGDBREC", 8);
}

static void named(struct name *table, const char *text, uint64_t handle) {
  for (int i = 0; i < MOST_NAMES; i++)
    if (table[i].text[0] == 0) {
      table[i].handle = handle;
      strncpy(table[i].text, text, sizeof table[i].text - 1);
      return;
    }
}

static void name_constants(void);

static void initialised(void) {
  if (M.state == 1) return;
  name_constants();
  M.any_source = MPI_ANY_SOURCE;
  M.any_tag = MPI_ANY_TAG;
  M.proc_null = MPI_PROC_NULL;
  M.root = MPI_ROOT;
  M.state = 1;
  new_communicator(MPI_COMM_WORLD, 1);
  new_communicator(MPI_COMM_SELF, 2);
}
