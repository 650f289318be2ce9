"""An event loop in a thread of its own, which runs the coroutines of other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from pgdb.errors import NO_JOB, SessionEndedError, UsageError
from pgdb.overlay.own_process import limit_tls_buffers

T = TypeVar("T")
Work = Callable[[], Coroutine[None, None, T]]
_CLOSED_MEANWHILE = "the session was closed before this call was done"


class _Call(Generic[T]):
    """A call that another thread's event loop runs.

    A ``KeyboardInterrupt`` can come between any two steps of the waiting thread. Therefore
    :meth:`start` may be called again, and :meth:`cancel` before it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Work[T]) -> None:
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._over = threading.Event()

    def start(self) -> None:
        """Start the call."""
        if not self._over.is_set():
            self._loop.call_soon_threadsafe(self._start)

    def cancel(self) -> None:
        """Cancel the call; it is over some time later."""
        self._loop.call_soon_threadsafe(self._cancel)

    def wait(self) -> None:
        """Wait until the call is over."""
        self._over.wait()

    def result(self) -> T:
        """Return or raise the result of the call, which must be over."""
        if self._task is None or self._task.cancelled():
            raise SessionEndedError(_CLOSED_MEANWHILE)
        return self._task.result()

    def _start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._carry_out())
            self._task.add_done_callback(lambda task: self._over.set())

    def _cancel(self) -> None:
        # The loop keeps the order: without a task by now, no start is in flight.
        if self._task is None:
            self._over.set()
        else:
            self._task.cancel()

    async def _carry_out(self) -> T:
        return await self._work()


class OtherLoop:
    """A :class:`LoopThread`, as coroutines of another event loop use it."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread

    async def call(self, work: Work[T]) -> T:
        """Run a coroutine in the thread, and wait for it here.

        :raises SessionEndedError: if the thread has ended, or does before the coroutine.
        """
        if self._thread.is_over:
            raise SessionEndedError(NO_JOB)
        done = asyncio.run_coroutine_threadsafe(work(), self._thread.loop)
        try:
            return await asyncio.wrap_future(done)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is not None and caller.cancelling():
                raise
            raise SessionEndedError(_CLOSED_MEANWHILE) from None


class LoopThread:
    """A thread with an event loop, which lives until :meth:`end`."""

    def __init__(self) -> None:
        self._owner_pid = os.getpid()
        self._lock = threading.Lock()
        self._last: _Call[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        # A daemon thread: Python waits for other threads before it calls the functions of atexit,
        # which close the session.
        self._thread = threading.Thread(target=self._run, name="pgdb session", daemon=True)
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the thread."""
        return self._loop

    @property
    def is_ours(self) -> bool:
        """Whether this process has the thread; a forked child has not."""
        return os.getpid() == self._owner_pid

    @property
    def is_over(self) -> bool:
        """Whether the thread accepts no more calls."""
        return self._last is not None

    def call(self, work: Work[T]) -> T:
        """Run a coroutine in the thread, and wait for it.

        A ``KeyboardInterrupt`` cancels the coroutine and is raised after its end; a second one is
        raised at once.

        :raises SessionEndedError: if the thread has ended, or does before the coroutine.
        :raises UsageError: if called in the thread itself.
        """
        call = _Call(self._loop, work)
        try:
            with self._lock:
                self._check_caller()
                if self.is_over:
                    raise SessionEndedError(NO_JOB)
                call.start()
            call.wait()
        except KeyboardInterrupt:
            if not self.is_over:
                call.cancel()
                call.wait()
            raise
        return call.result()

    def do(self, work: Callable[[], T]) -> T:
        """Call a function in the thread, where nothing changes meanwhile; see :meth:`call`.

        :raises SessionEndedError: if the thread has ended.
        """

        async def carry_out() -> T:
            return work()

        return self.call(carry_out)

    def end(self, work: Work[None]) -> None:
        """Run a last coroutine and end the thread; a second call does nothing.

        A ``KeyboardInterrupt`` is raised after that, a second one at once.

        :raises UsageError: if called in the thread itself.
        """

        async def carry_out() -> None:
            try:
                await work()
            finally:
                self._stop.set()

        call = _Call(self._loop, carry_out)
        try:
            if not self._start_last(call):
                return
            self._wait_end(call)
        except KeyboardInterrupt:
            # Not cancelled: a half-closed session would leave GDBs and a job behind.
            if self._start_last(call):
                self._wait_end(call)
            raise
        call.result()

    def _start_last(self, call: _Call[None]) -> bool:
        """Start the last call; return False if another one is the last."""
        with self._lock:
            if self._last is None:
                self._check_caller()
                self._last = call
            if self._last is not call:
                return False
            call.start()
            return True

    def _wait_end(self, call: _Call[None]) -> None:
        call.wait()
        self._thread.join()

    def _check_caller(self) -> None:
        if not self.is_ours:
            raise SessionEndedError(
                f"the session is that of process {self._owner_pid}; a forked child has none"
            )
        if threading.get_ident() == self._thread.ident:
            raise UsageError(
                "a callback runs in the session's thread and cannot call the session; "
                "have another thread do it"
            )

    def _run(self) -> None:
        # Not asyncio.run: at its end it starts a thread to shut the executor down, and from Python
        # 3.12 on no thread can be started once Python ends, when atexit calls close().
        asyncio.set_event_loop(self._loop)
        limit_tls_buffers()
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            asyncio.set_event_loop(None)
            self._loop.close()

    async def _serve(self) -> None:
        await self._stop.wait()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
