using System;
using System.Collections.Generic;

namespace Greenroom
{
    /// <summary>
    /// The client's end of the UDP fast lane, without a socket: it opens and checks packets, and seals its own.
    /// Nothing here knows the time; callers say it in seconds of any clock that never goes back.
    /// </summary>
    internal sealed class FastLaneEnd
    {
        internal const int PacketBytesMax = 1200;
        const byte Version = 0x47;
        const int HeaderBytes = 17;
        const int ResponseBytes = HeaderBytes + 9 + ChaCha20Poly1305.TagBytes;
        const int BodyBytesMax = PacketBytesMax - HeaderBytes - ChaCha20Poly1305.TagBytes;
        const int StreamsMax = 256;

        readonly byte[] session;
        readonly ChaCha20Poly1305 outgoing, incoming;
        readonly double silentSecondsMax;
        readonly ReplayWindow window = new ReplayWindow();
        readonly Dictionary<string, uint> latest = new Dictionary<string, uint>();
        readonly Queue<string> streamsByAge = new Queue<string>();
        ulong number;
        double pingedAt, heardAt;
        bool isConfirmed;

        /// <summary>The counts of this end.</summary>
        internal readonly FastLaneStatistics Statistics = new FastLaneStatistics();

        /// <exception cref="ArgumentException">The keys make no sense.</exception>
        internal FastLaneEnd(byte[] session, byte[] clientKey, byte[] serverKey, double silentSecondsMax)
        {
            if (session.Length != 8) throw new ArgumentException("A session has 8 bytes");
            this.session = session;
            this.silentSecondsMax = silentSecondsMax;
            outgoing = new ChaCha20Poly1305(clientKey);
            incoming = new ChaCha20Poly1305(serverKey);
        }

        /// <summary>Return whether messages can go this way: the server has confirmed our address.</summary>
        internal bool IsUp(double now)
        {
            return isConfirmed && now - heardAt < silentSecondsMax;
        }

        /// <summary>Return a packet with a PING: it opens the way, keeps it open, and measures it.</summary>
        internal byte[] MakePing(double now)
        {
            pingedAt = now;
            var body = new byte[ResponseBytes - HeaderBytes - ChaCha20Poly1305.TagBytes];
            FastFrames.WriteStamp(FastFrames.Ping, Stamp(now)).CopyTo(body, 0);
            return Seal(body);
        }

        /// <summary>Return a packet with one frame; null if it does not fit.</summary>
        internal byte[] Pack(byte[] frame)
        {
            return frame.Length > BodyBytesMax ? null : Seal(frame);
        }

        byte[] Seal(byte[] body)
        {
            number++;
            Statistics.PacketsSent++;
            return Seal(session, number, body, outgoing);
        }

        internal static byte[] Seal(byte[] session, ulong number, byte[] body, ChaCha20Poly1305 cipher)
        {
            var packed = new ByteWriter();
            packed.Put(Version, 1);
            packed.Put(session);
            packed.Put(number, 8);
            var header = packed.ToArray();
            packed.Put(cipher.Seal(Nonce(header), header, body));
            return packed.ToArray();
        }

        static byte[] Nonce(byte[] packet)
        {
            var nonce = new byte[ChaCha20Poly1305.NonceBytes];
            Buffer.BlockCopy(packet, 9, nonce, 4, 8);
            return nonce;
        }

        internal static byte[] Open(byte[] packet, ChaCha20Poly1305 cipher)
        {
            var header = new byte[HeaderBytes];
            Buffer.BlockCopy(packet, 0, header, 0, HeaderBytes);
            return cipher.Open(Nonce(packet), header, packet, HeaderBytes);
        }

        /// <summary>Take a packet in; return its messages, and put what must be sent into answers.</summary>
        internal List<FastFrame> Receive(byte[] packet, double now, List<byte[]> answers)
        {
            var messages = new List<FastFrame>();
            var frames = OpenFresh(packet);
            if (frames == null) return messages;
            heardAt = now;
            foreach (var frame in frames)
            {
                if (frame.Kind == FastFrames.Challenge)
                {
                    answers.Add(Respond(frame.Token, now));
                    isConfirmed = false;
                    continue;
                }
                isConfirmed = true;
                if (frame.Kind == FastFrames.Ping && answers.Count == 0)
                    answers.Add(Seal(FastFrames.WriteStamp(FastFrames.Pong, frame.Stamp)));
                if (frame.Kind == FastFrames.Pong && frame.Stamp == Stamp(pingedAt))
                    Statistics.RoundTrip = TimeSpan.FromSeconds(now - pingedAt);
                if (frame.Kind == FastFrames.Message && IsLatest(frame)) messages.Add(frame);
            }
            return messages;
        }

        /// <summary>Return the frames of a packet; null for one to be dropped.</summary>
        List<FastFrame> OpenFresh(byte[] packet)
        {
            List<FastFrame> frames = null;
            if (IsOurs(packet))
            {
                var its = new ByteReader(packet, 9).Take(8);
                var body = window.IsFresh(its) ? Open(packet, incoming) : null;
                if (body != null)
                {
                    window.Take(its);
                    Statistics.PacketsReceived++;
                    Statistics.PacketsLost = (long)window.Lost;
                    frames = FastFrames.Read(body);
                }
            }
            if (frames == null) Statistics.PacketsDropped++;
            return frames;
        }

        bool IsOurs(byte[] packet)
        {
            if (packet.Length <= HeaderBytes + ChaCha20Poly1305.TagBytes || packet.Length > PacketBytesMax) return false;
            if (packet[0] != Version) return false;
            for (var i = 0; i < session.Length; i++)
                if (packet[1 + i] != session[i]) return false;
            return true;
        }

        byte[] Respond(byte[] token, double now)
        {
            pingedAt = now;
            var body = new ByteWriter();
            body.Put(FastFrames.WriteToken(FastFrames.Response, token));
            body.Put(FastFrames.WriteStamp(FastFrames.Ping, Stamp(now)));
            return Seal(body.ToArray());
        }

        /// <summary>Return whether a message is to be taken; if so, older ones of its stream are not.</summary>
        internal bool IsLatest(FastFrame message)
        {
            if (message.Stream == 0) return true;
            var stream = message.SenderId + "/" + message.Stream;
            uint last;
            if (latest.TryGetValue(stream, out last))
            {
                var ahead = unchecked(message.Sequence - last);
                if (ahead == 0 || ahead >= 0x80000000)
                {
                    Statistics.MessagesOutdated++;
                    return false;
                }
            }
            else
            {
                if (latest.Count >= StreamsMax) latest.Remove(streamsByAge.Dequeue());
                streamsByAge.Enqueue(stream);
            }
            latest[stream] = message.Sequence;
            return true;
        }

        static uint Stamp(double now)
        {
            return unchecked((uint)(ulong)(now * 1000.0));
        }
    }
}
