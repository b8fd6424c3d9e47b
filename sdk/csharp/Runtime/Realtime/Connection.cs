using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Net.WebSockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>One WebSocket to a room. It may be used from several threads.</summary>
    internal sealed class Connection : IDisposable
    {
        const int Abnormal = 1006;
        const int OutboxBytesMax = 1 << 20;
        const int ReadBytes = 16384;
        const int MessageBytesMax = 64 << 20;
        static readonly TimeSpan ConnectTimeMax = TimeSpan.FromSeconds(15);
        static readonly TimeSpan CloseTimeMax = TimeSpan.FromSeconds(2);

        readonly ClientWebSocket socket = new ClientWebSocket();
        readonly Queue<byte[]> outbox = new Queue<byte[]>();
        readonly byte[] buffer = new byte[ReadBytes];
        int outboxBytes;
        bool isSending, isClosing;
        Task sending = Task.CompletedTask;

        /// <summary>Connect.</summary>
        /// <param name="token">What `realtime.php/token` has answered.</param>
        /// <param name="resume">The query that asks for what was missed; null for the first time.</param>
        /// <exception cref="ConnectionFailedException">It could not be opened.</exception>
        internal static async Task<Connection> Open(TokenReply token, string resume)
        {
            var connection = new Connection();
            try
            {
                connection.socket.Options.SetRequestHeader("X-Realtime-Token", token.Token);
                var url = Url(token.RealtimeServer) + "/?client=engine&hints=1" + (resume == null ? "" : "&" + resume);
                var opening = connection.socket.ConnectAsync(new Uri(url), CancellationToken.None);
                if (!await EndsWithin(opening, ConnectTimeMax).ConfigureAwait(false))
                    throw new ConnectionFailedException("The realtime port does not answer", true);
                await opening.ConfigureAwait(false);
                return connection;
            }
            catch (GreenroomException)
            {
                connection.Cut();
                throw;
            }
            catch (Exception error) // platforms throw exceptions of many kinds here
            {
                connection.Cut();
                throw new ConnectionFailedException("The realtime port cannot be reached: " + error.Message, true, error);
            }
        }

        static string Url(RealtimeServer server)
        {
            var host = server.Host.Trim('[', ']');
            if (host.IndexOf(':') >= 0) host = "[" + host + "]";
            return server.Protocol + "://" + host + ":" + server.Port;
        }

        /// <summary>Return the next message.</summary>
        /// <exception cref="ChannelClosedException">The connection is over.</exception>
        internal async Task<string> Take()
        {
            using (var whole = new MemoryStream())
            {
                while (true)
                {
                    var piece = await Receive().ConfigureAwait(false);
                    if (piece.MessageType == WebSocketMessageType.Close)
                        throw ChannelClosedException.Of(
                            (int)(socket.CloseStatus ?? (WebSocketCloseStatus)Abnormal),
                            socket.CloseStatusDescription ?? "");
                    whole.Write(buffer, 0, piece.Count);
                    if (whole.Length > MessageBytesMax)
                        throw new ChannelLostException(Abnormal, "a message of the server is too large");
                    if (piece.EndOfMessage)
                        return Encoding.UTF8.GetString(whole.GetBuffer(), 0, (int)whole.Length);
                }
            }
        }

        async Task<WebSocketReceiveResult> Receive()
        {
            try
            {
                var piece = new ArraySegment<byte>(buffer);
                return await socket.ReceiveAsync(piece, CancellationToken.None).ConfigureAwait(false);
            }
            catch (Exception error) // whatever it is, nothing more comes
            {
                throw new ChannelLostException(Abnormal, "cut off: " + error.Message);
            }
        }

        /// <summary>Queue a message, and return at once; it is lost if the connection is.</summary>
        /// <exception cref="OutboxFullException">More than a MiB waits: the server takes nothing.</exception>
        internal void Put(string text)
        {
            if (!TryPut(text, OutboxBytesMax))
                throw new OutboxFullException("The connection takes nothing: send less, or wait");
        }

        /// <summary>Queue a message that has waited for this connection: whatever waits has bounds of its
        /// own.</summary>
        internal void PutWaiting(string text)
        {
            TryPut(text, int.MaxValue);
        }

        bool TryPut(string text, int bytesMax)
        {
            var bytes = Encoding.UTF8.GetBytes(text);
            lock (outbox)
            {
                if (outboxBytes + (long)bytes.Length > bytesMax && outbox.Count > 0) return false;
                outbox.Enqueue(bytes);
                outboxBytes += bytes.Length;
                if (isSending) return true;
                isSending = true;
                sending = Task.Run(new Func<Task>(SendAll));
                return true;
            }
        }

        async Task SendAll()
        {
            while (true)
            {
                byte[] bytes;
                lock (outbox)
                {
                    if (outbox.Count == 0)
                    {
                        isSending = false;
                        return;
                    }
                    bytes = outbox.Peek();
                }
                var isSent = await Send(bytes).ConfigureAwait(false);
                lock (outbox)
                {
                    outbox.Dequeue();
                    outboxBytes -= bytes.Length;
                }
                if (!isSent) Cut();
            }
        }

        /// <summary>Send a message. A heartbeat that is not answered ends a server that takes nothing.</summary>
        async Task<bool> Send(byte[] bytes)
        {
            try
            {
                var all = new ArraySegment<byte>(bytes);
                await socket.SendAsync(all, WebSocketMessageType.Text, true, CancellationToken.None)
                    .ConfigureAwait(false);
                return true;
            }
            catch (Exception) // the reader finds out why
            {
                return false;
            }
        }

        /// <summary>
        /// Close in order, and block for two seconds at most: what waits is sent first. No timer is used: Mono
        /// aborts its thread of timers when a program ends, and crashes if that is at work.
        /// </summary>
        internal void Close()
        {
            var closed = Stopwatch.StartNew();
            Task last;
            lock (outbox)
            {
                if (isClosing) return;
                isClosing = true;
                last = sending;
            }
            try
            {
                if (last.Wait(CloseTimeMax))
                    socket.CloseOutputAsync(WebSocketCloseStatus.NormalClosure, "", CancellationToken.None)
                        .Wait(Left(closed));
            }
            catch (Exception) { } // it is over either way
            Cut();
        }

        static TimeSpan Left(Stopwatch closed)
        {
            var left = CloseTimeMax - closed.Elapsed;
            return left > TimeSpan.Zero ? left : TimeSpan.Zero;
        }

        /// <summary>End the connection at once.</summary>
        internal void Cut()
        {
            try
            {
                socket.Abort();
            }
            catch (Exception) { } // it is over either way
        }

        public void Dispose()
        {
            Cut();
            socket.Dispose();
        }

        /// <summary>Wait for a task; return whether it ended in time. If not, its error is ignored.</summary>
        internal static async Task<bool> EndsWithin(Task task, TimeSpan time)
        {
            using (var over = new CancellationTokenSource())
            {
                var first = await Task.WhenAny(task, Task.Delay(time, over.Token)).ConfigureAwait(false);
                over.Cancel();
                if (first != task) Ignore(task);
                return first == task;
            }
        }

        /// <summary>Note the error of a task that nobody waits for, so that it is not reported as unseen.</summary>
        internal static void Ignore(Task task)
        {
            task.ContinueWith(
                ended => { var seen = ended.Exception; }, CancellationToken.None,
                TaskContinuationOptions.OnlyOnFaulted, TaskScheduler.Default);
        }
    }
}
