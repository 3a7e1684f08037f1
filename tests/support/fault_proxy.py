"""A TCP proxy between ZeroMQ peers that delays, doubles, drops and reorders whole messages, as a seed says.

It reads ZMTP 3 framing (https://rfc.zeromq.org/spec/23): after a greeting of 64 bytes each way come frames, each a byte
of flags (1: more frames of this message, 2: eight bytes of length instead of one, 4: a command), its length, its bytes.
Greetings and commands (the handshake, heartbeats) pass as they are; the unit of every fault is a message with all its
frames, so that what comes out is always a stream that ZeroMQ understands.
"""
import asyncio
import itertools
import random
import threading

MORE, LONG, COMMAND = 1, 2, 4


class FaultProxy:
    """Listens on a port of its own on loopback and passes on to `target` (host, port), until `close`.

    `loss`, `doubling`: probability a message; `delay_s`: each copy waits up to so long by itself, so that messages
    overtake each other. `counts` tells what was done to how many."""

    def __init__(self, target, seed, loss=0.0, doubling=0.0, delay_s=0.0):
        self.target, self.seed = target, seed
        self.loss, self.doubling, self.delay_s = loss, doubling, delay_s
        self.counts = {"messages": 0, "lost": 0, "doubled": 0, "overtaken": 0}
        self.connections = itertools.count()
        self.open = set()
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        self.ready.wait(10)

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def turn_to(self, target):
        """Connections lead there from now on; those that are there end."""
        self.target = target
        self.loop.call_soon_threadsafe(lambda: [writer.close() for writer in list(self.open)])

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    def run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self.ready.set()
        self.loop.run_forever()

    async def connected(self, reader, writer):
        try:
            there_reader, there_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        number = next(self.connections)
        both = {writer, there_writer}
        self.open |= both
        await asyncio.gather(self.pass_on(reader, there_writer, random.Random(f"{self.seed}.{number}.up")),
                             self.pass_on(there_reader, writer, random.Random(f"{self.seed}.{number}.down")))
        self.open -= both

    async def pass_on(self, reader, writer, chance):
        newest = 0
        try:
            await self.pass_greeting(reader, writer)
            for number in itertools.count(1):
                command, message = await self.read_message(reader)
                if command:
                    writer.write(message)
                    continue
                self.counts["messages"] += 1
                if chance.random() < self.loss:
                    self.counts["lost"] += 1
                    continue
                copies = 2 if chance.random() < self.doubling else 1
                self.counts["doubled"] += copies - 1
                for _ in range(copies):
                    wait_s = chance.uniform(0, self.delay_s)

                    def deliver(number=number, message=message):
                        nonlocal newest
                        self.counts["overtaken"] += number < newest
                        newest = max(newest, number)
                        if not writer.is_closing():
                            writer.write(message)

                    self.loop.call_later(wait_s, deliver)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def pass_greeting(self, reader, writer):
        """Piece by piece: each side sends the end of its own once it has seen the beginning of the other's."""
        left = 64
        while left:
            piece = await reader.read(left)
            if not piece:
                raise asyncio.IncompleteReadError(b"", left)
            writer.write(piece)
            left -= len(piece)

    async def read_message(self, reader):
        """(is it a command, all its frames as they came)"""
        message = b""
        while True:
            flags = await reader.readexactly(1)
            length = await reader.readexactly(8 if flags[0] & LONG else 1)
            message += flags + length + await reader.readexactly(int.from_bytes(length, "big"))
            if not flags[0] & MORE:
                return bool(flags[0] & COMMAND), message
