"""Random programs whose rank 1 stands in one call of MPI after the other, with known arguments.

Each argument is a random expression over values that the compiler cannot know, written so that its
value is fixed. The calls stand in functions of many shapes: loops, wrappers, methods, lambdas,
calls by pointer. Rank 1 writes the number of its call into a shared file, and the other ranks do
their part once the file allows it; so a debugger needs nothing but rank 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.call_expressions import COMMUNICATORS, TYPES, Expressions, Scope
from tests.support.call_truth import Truth

NAMES = {"sub": "three", "twin": "twin"}
VICTIM = 1
CONTROL_BYTES = 4096

_HEAD = """\
#include <fcntl.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))
#define INLINE static inline __attribute__((always_inline))
struct control {
    volatile int current, released, rank_pid;
};
struct part {
    int kind, a[6], pad;
    short s[4];
    long l[4];
    MPI_Comm comm;
    struct part *next;
};
static struct control *control;
static volatile int in[64];
static int rank, size;
static MPI_Comm world, sub = MPI_COMM_NULL, turned, twin = MPI_COMM_NULL;
static MPI_Comm comms[4];
static MPI_Datatype types[3];
static char data[65536], results[65536];
static MPI_Status status;
static long trace;

NOINLINE void noise(long n)
{
    trace = trace * 31 + n;
}

NOINLINE int identity(int n)
{
    trace++;
    return n;
}

INLINE int least(int a, int b)
{
    return a < b ? a : b;
}

static void begin(int number)
{
    if (rank == 1)
        control->current = number;
    else
        while (control->released < number)
            usleep(500);
}
"""
_MAIN = """
int main(int argc, char **argv)
{
    int n, turn[4] = {3, 2, 1, 0};
    MPI_Group all, some;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    control = (struct control *)mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
                                     open(argv[1], O_RDWR), 0);
    if (size != 4 || control == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (n = 0; n < 64; n++)
        in[n] = n;
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 4, turn, &some);
    MPI_Comm_create(world, some, &turned);
    turn[1] = 1, turn[2] = 0;
    MPI_Group_incl(all, 3, turn, &some);
    MPI_Comm_create(world, some, &sub);
    if (sub != MPI_COMM_NULL) {
        MPI_Comm_dup(sub, &twin);
        MPI_Comm_set_name(sub, "three");
        MPI_Comm_set_name(twin, "twin");
    }
    comms[0] = world, comms[1] = sub, comms[2] = turned, comms[3] = twin;
    types[0] = MPI_INT, types[1] = MPI_DOUBLE, types[2] = MPI_CHAR;
    if (rank == 1)
        control->rank_pid = getpid();
%s
    MPI_Finalize();
    return 0;
}
"""


@dataclass
class Call:
    """Call of a function of MPI, with its arguments as text that has placeholders for values."""

    function: str
    arguments: list[str]
    values: dict[str, int]
    truth: dict[str, str]
    partners: dict[int, str]
    behind: str = ""
    """Statement of the victim after the call."""


class Generator(Expressions):
    """Writer of programs in C and C++."""

    def program(self, calls: int) -> tuple[str, dict[int, Truth]]:
        """Return the source of a program, and the truth about each of its calls."""
        functions: list[str] = []
        steps: list[str] = []
        truth = {}
        for number in range(1, calls + 1):
            call = self._call()
            self._globals = []
            body, step = self._function(number, call)
            functions += [*self._globals, *body]
            steps += self._step(number, call, step)
            truth[number] = Truth(call.function, call.truth)
        head = _HEAD
        if self._is_cpp:
            head = head.replace("#include <fcntl.h>", "#include <algorithm>\n#include <fcntl.h>")
        return head + "\n".join(functions) + _MAIN % "\n".join(steps), truth

    # -- calls of MPI --------------------------------------------------------------------------

    def _call(self) -> Call:
        random = self._random
        name = random.choice(["world", "world", "sub", "turned", "twin"])
        members = COMMUNICATORS[name]
        own = members.index(VICTIM)
        others = [each for each in range(len(members)) if each != own]
        peer, second = random.choice(others), random.choice(others)
        datatype = random.choice(list(TYPES))
        count, count2 = random.randrange(1, 40), random.randrange(1, 40)
        tag, tag2 = random.randrange(0, 300), random.randrange(0, 300)
        text = ",".join(map(str, sorted(members)))
        shown = {"0,1,2,3": "0-3", "0,1,3": "0-1,3"}[text]
        truth = {"members": shown}
        if name in NAMES:
            truth["name"] = NAMES[name]
        world_peer, world_second = members[peer], members[second]
        kind = random.choice(
            "recv recv recv ssend ssend ssend probe sendrecv bcast reduce gather scatter"
            " allreduce barrier allgather waitall".split()
        )
        mine = f"{own}, {{tag}}, {name}"
        truth |= {"datatype": datatype, "count": str(count)}
        common = {"datatype": datatype, "comm": name}
        match kind:
            case "recv" | "probe":
                truth |= {"source": str(world_peer), "tag": str(tag)}
                send = f"MPI_Send(data, {count}, {datatype}, {own}, {tag}, {name});"
                values = {"peer": peer, "tag": tag}
                if kind == "probe":
                    del truth["count"], truth["datatype"]
                    behind = f"MPI_Recv(data, {count}, {datatype}, {peer}, {tag}, {name}, &status);"
                    return Call(
                        "MPI_Probe",
                        ["{peer}", "{tag}", "{comm}", "&status"],
                        values | common,  # type: ignore[operator]
                        truth,
                        {world_peer: send},
                        behind,
                    )
                return Call(
                    "MPI_Recv",
                    ["data", "{count}", "{datatype}", "{peer}", "{tag}", "{comm}", "&status"],
                    values | {"count": count} | common,  # type: ignore[operator]
                    truth,
                    {world_peer: send},
                )
            case "ssend":
                truth |= {"dest": str(world_peer), "tag": str(tag)}
                recv = f"MPI_Recv(data, {count}, {datatype}, {mine.format(tag=tag)}, &status);"
                return Call(
                    "MPI_Ssend",
                    ["data", "{count}", "{datatype}", "{peer}", "{tag}", "{comm}"],
                    {"count": count, "peer": peer, "tag": tag} | common,  # type: ignore[operator]
                    truth,
                    {world_peer: recv},
                )
            case "sendrecv":
                truth |= {
                    "dest": str(world_peer),
                    "tag": str(tag),
                    "source": str(world_second),
                    "receive_tag": str(tag2),
                    "receive_count": str(count2),
                }
                recv = f"MPI_Recv(data, {count}, {datatype}, {own}, {tag}, {name}, &status);"
                send = f"MPI_Send(data, {count2}, MPI_CHAR, {own}, {tag2}, {name});"
                partners = {world_peer: recv}
                partners[world_second] = partners.get(world_second, "") + send
                return Call(
                    "MPI_Sendrecv",
                    (
                        "data|{count}|{datatype}|{peer}|{tag}|results|{count2}|MPI_CHAR|{second}"
                        "|{tag2}|{comm}|&status"
                    ).split("|"),
                    {
                        "count": count,
                        "count2": count2,
                        "peer": peer,
                        "second": second,
                        "tag": tag,
                        "tag2": tag2,
                    }
                    | common,  # type: ignore[operator]
                    truth,
                    partners,
                )
            case "waitall":
                del truth["count"], truth["datatype"], truth["members"]
                truth.pop("name", None)
                truth["requests"] = f"recv:{world_peer}:{tag},recv:{world_second}:{tag2}"
                partners = {}
                for one, its_tag in ((world_peer, tag), (world_second, tag2)):
                    send = f"MPI_Send(data, {count}, {datatype}, {own}, {its_tag}, {name});"
                    partners[one] = partners.get(one, "") + send
                return Call(
                    "MPI_Waitall",
                    ["{two}", "requests", "MPI_STATUSES_IGNORE"],
                    {
                        "two": 2,
                        "begin": (
                            f"MPI_Irecv(data, {count}, {datatype}, {peer}, {tag}, {name},"
                            f" &requests[0]);\n    MPI_Irecv(results, {count}, {datatype},"
                            f" {second}, {tag2}, {name}, &requests[1]);"
                        ),  # type: ignore[dict-item]
                    },
                    truth,
                    partners,
                )
            case _:
                return self._collective(kind, name, members, own, peer, count, datatype, truth)

    def _collective(
        self,
        kind: str,
        name: str,
        members: tuple[int, ...],
        own: int,
        peer: int,
        count: int,
        datatype: str,
        truth: dict[str, str],
    ) -> Call:
        values: dict[str, object] = {"count": count, "datatype": datatype, "comm": name}
        root = own if kind in ("reduce", "gather") else peer
        if kind not in ("allreduce", "barrier", "allgather"):
            truth["root"] = str(members[root])
            values["root"] = root
        if kind in ("reduce", "allreduce"):
            truth["operation"] = "MPI_SUM"
        if kind in ("gather", "scatter", "allgather"):
            truth["receive_count"] = str(count)
        arguments = {
            "bcast": "data|{count}|{datatype}|{root}|{comm}",
            "reduce": "data|results|{count}|{datatype}|MPI_SUM|{root}|{comm}",
            "gather": "data|{count}|{datatype}|results|{count}|{datatype}|{root}|{comm}",
            "scatter": "data|{count}|{datatype}|results|{count}|{datatype}|{root}|{comm}",
            "allreduce": "data|results|{count}|{datatype}|MPI_SUM|{comm}",
            "allgather": "data|{count}|{datatype}|results|{count}|{datatype}|{comm}",
            "barrier": "{comm}",
        }[kind]
        if kind == "barrier":
            del truth["count"], truth["datatype"]
        if kind in ("reduce", "allreduce") and datatype == "MPI_CHAR":
            values["datatype"] = datatype = "MPI_INT"
            truth["datatype"] = datatype
        function = f"MPI_{kind.capitalize()}"
        filled = arguments.format(count=count, datatype=datatype, root=root, comm=name)
        text = f"{function}({filled.replace('|', ', ')});"
        partners = {each: text for each in members if each != VICTIM}
        return Call(function, arguments.split("|"), values, truth, partners)  # type: ignore[arg-type]

    def _step(self, number: int, call: Call, step: list[str]) -> list[str]:
        lines = [f"    begin({number});", "    if (rank == 1) {"]
        lines += [f"        {each}" for each in step]
        if call.behind:
            lines.append(f"        {call.behind}")
        lines.append("    }")
        for rank, text in call.partners.items():
            lines += [f"    else if (rank == {rank}) {{", f"        {text}", "    }"]
        return lines

    # -- functions -----------------------------------------------------------------------------

    def _texts(self, scope: Scope, call: Call) -> dict[str, str]:
        """Return an expression for each value of a call."""
        texts: dict[str, str] = {}
        for key, value in call.values.items():
            if key == "comm":
                texts[key] = self.communicator(scope, str(value))
            elif key == "datatype":
                texts[key] = self.datatype(scope, str(value))
            elif key != "begin":
                depth = self._random.choice([0, 1, 1, 2, 2, 3])
                texts[key] = self.expression(scope, value, depth)
        return texts

    def _function(self, number: int, call: Call) -> tuple[list[str], list[str]]:
        """Return the functions of a call, and the statements that begin it."""
        random = self._random
        scope = Scope()
        texts = self._texts(scope, call)
        arguments = [each.format(**texts) for each in call.arguments]
        before = list(scope.before)
        if "requests" in arguments:
            before = ["MPI_Request requests[2];", *before, str(call.values["begin"])]
        if random.random() < 0.3:
            before.append(f"noise({random.randrange(9)});")
        shape = random.choice(
            ["plain", "plain", "wrapper", "inline", "pointer", "loop", "variadic", "switch"]
            + ["method", "lambda", "template"] * self._is_cpp
        )
        helpers: list[str] = []
        made = f"{call.function}({', '.join(arguments)})"
        types = [
            _type_of(each, template)
            for each, template in zip(arguments, call.arguments, strict=True)
        ]
        declared = ", ".join(f"{kind} p{n}" for n, kind in enumerate(types))
        passed = ", ".join(f"p{n}" for n in range(len(types)))
        match shape:
            case "wrapper" | "inline":
                prefix = "NOINLINE" if shape == "wrapper" else "INLINE"
                end = "" if random.random() < 0.5 else " trace += 3;"
                inner = f"int code = {call.function}({passed});{end} return code;"
                helpers.append(f"{prefix} int wrapped_{number}({declared}) {{ {inner} }}")
                made = f"wrapped_{number}({', '.join(arguments)})"
            case "pointer":
                helpers.append(
                    f"static __typeof__({call.function})"
                    f" *volatile pointer_{number} = {call.function};"
                )
                made = f"pointer_{number}({', '.join(arguments)})"
            case "variadic":
                pulled = " ".join(
                    f"{kind} p{n} = va_arg(given, {kind});" for n, kind in enumerate(types)
                )
                helpers.append(
                    f"NOINLINE int wrapped_{number}(int first, ...) {{ va_list given; int code;"
                    f" va_start(given, first); {{ {pulled} code = {call.function}({passed}); }}"
                    " va_end(given); return code; }"
                )
                cast = ", ".join(
                    f"({kind}){text}" for kind, text in zip(types, arguments, strict=True)
                )
                made = f"wrapped_{number}(0, {cast})"
            case "method":
                fields = " ".join(f"{kind} p{n};" for n, kind in enumerate(types))
                helpers.append(
                    f"struct holder_{number} {{ {fields}"
                    f" NOINLINE int go() {{ return {call.function}({passed}); }} }};"
                )
                made = f"holder_{number}{{{', '.join(arguments)}}}.go()"
            case "lambda":
                made = f"[&](int extra) {{ noise(extra); return {made}; }}(in[3])"
            case "template":
                helpers.append(
                    f"template <typename... All> NOINLINE int any_{number}(All... all)"
                    f" {{ return {call.function}(all...); }}"
                )
                cast = ", ".join(
                    f"({kind}){text}" for kind, text in zip(types, arguments, strict=True)
                )
                made = f"any_{number}({cast})"
        statement = f"{made};"
        if random.random() < 0.4:
            statement = f"noise({made});"
        if shape == "loop":
            at = random.randrange(0, 6)
            statement = (
                f"for (int i = in[0]; i < in[6]; i++) {{ if (i == in[{at}]) {statement}"
                f" else noise(i); }}"
            )
        elif shape == "switch":
            at = random.randrange(0, 6)
            cases = " ".join(
                f"case {n}: {statement if n == at else f'noise({n} * trace);'} break;"
                for n in range(6)
            )
            statement = f"switch (in[{at}]) {{ {cases} }}"
        parameters = ", ".join(f"{kind} {name}" for kind, name, _ in scope.parameters) or "void"
        body = "\n    ".join([*before, statement])
        function = f"NOINLINE void call_{number}({parameters})\n{{\n    {body}\n}}\n"
        given = ", ".join(text for _, _, text in scope.parameters)
        return [*helpers, function], [*scope.outside, f"call_{number}({given});"]


def _type_of(argument: str, template: str) -> str:
    if template == "{comm}":
        return "MPI_Comm"
    if "datatype" in template or template == "MPI_CHAR":
        return "MPI_Datatype"
    if template == "MPI_SUM":
        return "MPI_Op"
    if template == "&status" or "STATUSES" in template:
        return "MPI_Status *"
    if template == "requests":
        return "MPI_Request *"
    if template in ("data", "results"):
        return "void *"
    del argument
    return "int"
