using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Threading;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>One session of the fast lane on a UDP socket. It ends with its control connection.</summary>
    internal sealed class FastLane
    {
        const double OpeningPingSeconds = 0.25;
        const double ReopenSeconds = 1.0;
        const int PollMicroseconds = 20000;

        static readonly Stopwatch Clock = Stopwatch.StartNew();

        readonly object turn = new object();
        readonly FastLaneEnd end;
        readonly string host;
        readonly int port;
        readonly double pingSeconds;
        readonly Action<FastFrame> take;
        volatile bool isClosed;
        Socket socket;

        /// <summary>Prepare a session; it opens with Start.</summary>
        /// <param name="keys">What the server's frame `udp` holds.</param>
        /// <param name="take">Gets each message, on another thread; must not block.</param>
        /// <exception cref="ArgumentException">The keys make no sense.</exception>
        internal FastLane(JsonObject keys, Action<FastFrame> take)
        {
            if (keys.GetString("suite") != "chacha20-poly1305") throw new ArgumentException("An unknown suite");
            host = (keys.GetString("host") ?? "").Trim('[', ']');
            port = (int)keys.GetLong("port");
            pingSeconds = Math.Max(keys.GetOptionalDouble("ping_seconds") ?? 10.0, OpeningPingSeconds);
            var silentSecondsMax = keys.GetOptionalDouble("silent_seconds_max") ?? 30.0;
            end = new FastLaneEnd(
                Hex.Read(keys.GetString("session")),
                Hex.Read(keys.GetString("client_key")),
                Hex.Read(keys.GetString("server_key")),
                silentSecondsMax);
            this.take = take;
        }

        internal FastLaneStatistics Statistics { get { return end.Statistics; } }

        internal bool IsUp
        {
            get { lock (turn) return socket != null && end.IsUp(Now); }
        }

        static double Now { get { return Clock.Elapsed.TotalSeconds; } }

        internal void Start()
        {
            Task.Factory.StartNew(Run, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
        }

        internal void Close()
        {
            isClosed = true;
        }

        /// <summary>Send a message; return false if it cannot go over UDP: not up, or too large.</summary>
        internal bool Send(byte[] frame)
        {
            lock (turn)
            {
                if (socket == null || !end.IsUp(Now)) return false;
                var packet = end.Pack(frame);
                return packet != null && Put(packet);
            }
        }

        void Run()
        {
            while (!isClosed)
            {
                try
                {
                    Serve();
                }
                catch (SocketException) { } // no route, no name: the network may come back
                if (!isClosed) Thread.Sleep(TimeSpan.FromSeconds(ReopenSeconds));
            }
        }

        /// <summary>Use one socket until it fails or the lane is closed.</summary>
        void Serve()
        {
            var found = Dns.GetHostAddresses(host);
            if (found.Length == 0) throw new SocketException((int)SocketError.HostNotFound);
            var address = found[0];
            using (var udp = new Socket(address.AddressFamily, SocketType.Dgram, ProtocolType.Udp))
            {
                udp.Connect(new IPEndPoint(address, port));
                lock (turn) socket = udp;
                try
                {
                    Alternate(udp);
                }
                finally
                {
                    lock (turn) socket = null;
                }
            }
        }

        /// <summary>Ping, and read packets between pings.</summary>
        void Alternate(Socket udp)
        {
            var buffer = new byte[FastLaneEnd.PacketBytesMax + 1];
            double pingAt = 0.0;
            while (!isClosed)
            {
                lock (turn)
                {
                    if (Now >= pingAt)
                    {
                        Put(end.MakePing(Now));
                        pingAt = Now + (end.IsUp(Now) ? pingSeconds : OpeningPingSeconds);
                    }
                }
                if (udp.Poll(PollMicroseconds, SelectMode.SelectRead)) Receive(udp, buffer);
                if (!IsUp) pingAt = Math.Min(pingAt, Now + OpeningPingSeconds);
            }
        }

        void Receive(Socket udp, byte[] buffer)
        {
            int count;
            try
            {
                count = udp.Receive(buffer);
            }
            catch (SocketException error)
            {
                if (IsHarmless(error)) return;
                throw;
            }
            var packet = new byte[count];
            Buffer.BlockCopy(buffer, 0, packet, 0, count);
            var answers = new List<byte[]>();
            List<FastFrame> messages;
            lock (turn)
            {
                messages = end.Receive(packet, Now, answers);
                foreach (var answer in answers) Put(answer);
            }
            foreach (var message in messages) take(message);
        }

        bool Put(byte[] packet)
        {
            try
            {
                socket.Send(packet);
                return true;
            }
            catch (SocketException)
            {
                return false; // lost, as packets may be; a socket of no use fails in Receive, too
            }
        }

        /// <summary>Return whether nobody listens there yet, or a packet was larger than ours are.</summary>
        static bool IsHarmless(SocketException error)
        {
            return error.SocketErrorCode == SocketError.ConnectionRefused
                || error.SocketErrorCode == SocketError.ConnectionReset
                || error.SocketErrorCode == SocketError.MessageSize;
        }
    }
}
