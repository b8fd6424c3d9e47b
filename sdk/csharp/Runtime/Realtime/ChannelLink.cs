using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>
    /// Keeps a room's connection open in the background: connects, reads, sends heartbeats, and comes back with
    /// what was missed. What it reads waits in a queue for RoomChannel.Poll.
    /// </summary>
    internal sealed class ChannelLink
    {
        const int Abnormal = 1006;
        static readonly TimeSpan GreetingTimeMax = TimeSpan.FromSeconds(15);
        static readonly TimeSpan EndTimeMax = TimeSpan.FromSeconds(0.5);
        static readonly TimeSpan TokenTimeMax = TimeSpan.FromSeconds(240); // the server takes it for 300
        static readonly TimeSpan BackoffFirst = TimeSpan.FromSeconds(0.2);
        static readonly TimeSpan BackoffMax = TimeSpan.FromSeconds(5);

        readonly Func<CancellationToken, Task<TokenReply>> mint;
        readonly string roomId;
        readonly ChannelOptions options;
        readonly CancellationTokenSource ending = new CancellationTokenSource();
        readonly TaskCompletionSource<bool> started = new TaskCompletionSource<bool>();
        readonly Random chance = new Random();
        readonly Stopwatch tokenAge = new Stopwatch();
        TokenReply token;
        volatile Connection current;
        volatile bool isEnding;
        Task running = Task.CompletedTask;
        Task ended;
        readonly ResumeCursor cursor = new ResumeCursor();
        int heartbeatsAnswered;

        /// <summary>What has come and waits.</summary>
        internal readonly IncomingQueue Queue = new IncomingQueue();

        internal ChannelLink(
            Func<CancellationToken, Task<TokenReply>> mint, string roomId, ChannelOptions options)
        {
            this.mint = mint;
            this.roomId = roomId;
            this.options = options;
        }

        /// <summary>Connect, and go on in the background.</summary>
        /// <exception cref="GreenroomException">The first connection could not be opened.</exception>
        internal Task Start()
        {
            running = Task.Run(new Func<Task>(Run));
            return started.Task;
        }

        /// <summary>Close the connection, and stop.</summary>
        /// <returns>The closing, which takes two seconds at most.</returns>
        internal Task End()
        {
            lock (ending)
            {
                if (ended != null) return ended;
                isEnding = true;
                ended = Task.Factory.StartNew(
                    CloseAll, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
                return ended;
            }
        }

        void CloseAll()
        {
            var connection = current;
            if (connection != null) connection.Close();
            ending.Cancel();
            running.Wait(EndTimeMax);
        }

        async Task Run()
        {
            try
            {
                Finish(await KeepConnected().ConfigureAwait(false));
            }
            catch (OperationCanceledException)
            {
                Finish(new ChannelLostException(1000, "closed by this client"));
            }
            catch (Exception error) // a fault of this library: the game must not wait for ever
            {
                Finish(new GreenroomException("The channel has failed: " + error.Message, error));
            }
        }

        void Finish(GreenroomException error)
        {
            if (!started.TrySetException(error)) Queue.PutNotice(new Incoming { Over = error });
        }

        /// <summary>Connect again and again; return what ended that.</summary>
        async Task<GreenroomException> KeepConnected()
        {
            var away = Stopwatch.StartNew();
            for (var failures = 1; ; failures++)
            {
                GreenroomException error;
                try
                {
                    using (var connection = await Connect().ConfigureAwait(false))
                    {
                        failures = 0;
                        Queue.PutNotice(new Incoming { Connected = connection });
                        started.TrySetResult(true);
                        error = await Live(connection).ConfigureAwait(false);
                    }
                    away.Restart();
                }
                catch (GreenroomException failed)
                {
                    error = failed;
                }
                if (isEnding) throw new OperationCanceledException();
                if (!started.Task.IsCompleted || !IsMendable(error)) return error;
                var wait = Backoff.Pause(BackoffFirst, BackoffMax, failures + 1, chance);
                var limited = error as RateLimitedException;
                if (limited != null) wait += limited.RetryAfter;
                if (away.Elapsed + wait > options.ReconnectTimeMax)
                    return new ChannelLostException(Abnormal, "not connected again in time: " + error.Message);
                await Task.Delay(wait, ending.Token).ConfigureAwait(false);
            }
        }

        static bool IsMendable(GreenroomException error)
        {
            return error is ChannelLostException || error is ConnectionFailedException
                || error is RateLimitedException || error is ServerException;
        }

        /// <summary>Open a connection and read its greeting, with a new token if the old one is refused.</summary>
        async Task<Connection> Connect()
        {
            while (true)
            {
                var isNew = await RenewToken().ConfigureAwait(false);
                Connection connection = null;
                try
                {
                    connection = await Connection.Open(token, cursor.Query).ConfigureAwait(false);
                    await Greet(connection).ConfigureAwait(false);
                    return connection;
                }
                catch (TokenRefusedException)
                {
                    connection.Dispose();
                    token = null;
                    if (isNew) throw;
                }
                catch (GreenroomException)
                {
                    if (connection != null) connection.Dispose();
                    token = null; // a server that was started again may listen elsewhere
                    throw;
                }
            }
        }

        /// <summary>Make sure that the token is good; return whether it is a new one.</summary>
        async Task<bool> RenewToken()
        {
            if (token != null && tokenAge.Elapsed < TokenTimeMax) return false;
            var minted = await mint(ending.Token).ConfigureAwait(false);
            if (!minted.IsSensible)
                throw new UnexpectedAnswerException("The token makes no sense: check the address");
            if (minted.PlayerInfo.RoomId != roomId)
                throw new SeatLostException(Abnormal, "the player has a seat in another room");
            token = minted;
            tokenAge.Restart();
            return true;
        }

        async Task Greet(Connection connection)
        {
            var taking = connection.Take();
            if (!await Connection.EndsWithin(taking, GreetingTimeMax).ConfigureAwait(false))
                throw new ChannelLostException(Abnormal, "the server did not say hello");
            var frame = ResumeCursor.Read(await taking.ConfigureAwait(false));
            var about = frame == null ? null : frame.GetObject("data");
            if (about != null && frame.GetString("type") == "refused")
                await HearRefusal(connection, about.GetString("hint")).ConfigureAwait(false);
            if (about == null || frame.GetString("type") != "connected")
                throw new ChannelLostException(Abnormal, "the server did not say hello");
            cursor.Begin(about);
        }

        /// <summary>Wait for the close frame that follows on a refusal, and give its error the hint.</summary>
        static async Task HearRefusal(Connection connection, string hint)
        {
            var closing = connection.Take();
            if (!await Connection.EndsWithin(closing, GreetingTimeMax).ConfigureAwait(false)) return;
            try
            {
                await closing.ConfigureAwait(false);
            }
            catch (ChannelClosedException error)
            {
                error.Hint = hint;
                throw;
            }
        }

        /// <summary>Use a connection until it is over; return the reason.</summary>
        async Task<ChannelClosedException> Live(Connection connection)
        {
            current = connection;
            if (isEnding) connection.Cut();
            using (var over = CancellationTokenSource.CreateLinkedTokenSource(ending.Token))
            {
                Connection.Ignore(Beat(connection, over.Token));
                try
                {
                    while (true) await Handle(await connection.Take().ConfigureAwait(false)).ConfigureAwait(false);
                }
                catch (ChannelClosedException error)
                {
                    Queue.PutNotice(new Incoming { Lost = error });
                    return error;
                }
                finally
                {
                    current = null;
                    over.Cancel();
                }
            }
        }

        async Task Handle(string text)
        {
            var frame = ResumeCursor.Read(text);
            if (frame == null) return;
            if (frame.GetString("type") == "heartbeat_ack")
            {
                Interlocked.Increment(ref heartbeatsAnswered);
                return;
            }
            cursor.Take(frame);
            await Queue.Put(frame, ending.Token).ConfigureAwait(false);
        }

        /// <summary>Send heartbeats; cut the connection if one is not answered.</summary>
        async Task Beat(Connection connection, CancellationToken over)
        {
            while (true)
            {
                await Task.Delay(options.HeartbeatInterval, over).ConfigureAwait(false);
                var answered = Volatile.Read(ref heartbeatsAnswered);
                try
                {
                    connection.Put(Frames.Heartbeat);
                }
                catch (OutboxFullException) { } // then it is not answered, either
                await Task.Delay(options.HeartbeatAnswerTimeMax, over).ConfigureAwait(false);
                if (Volatile.Read(ref heartbeatsAnswered) == answered && !Queue.IsFull) connection.Cut();
            }
        }
    }
}
