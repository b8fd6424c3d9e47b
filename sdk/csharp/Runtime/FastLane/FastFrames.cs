using System;
using System.Collections.Generic;
using System.Text;

namespace Greenroom
{
    /// <summary>A frame from the server inside a packet.</summary>
    internal sealed class FastFrame
    {
        internal byte Kind;
        /// <summary>The stamp of a PING or PONG.</summary>
        internal uint Stamp;
        /// <summary>The eight bytes of a CHALLENGE or RESPONSE.</summary>
        internal byte[] Token;
        internal bool IsHost, IsServer;
        internal ushort Stream;
        internal uint Sequence;
        internal long SenderId;
        internal string Command, DataJson;
    }

    /// <summary>The frames inside packets, as docs/reference/realtime-protocol.md defines them.</summary>
    internal static class FastFrames
    {
        internal const byte Padding = 0, Ping = 1, Pong = 2, Challenge = 3, Response = 4, Message = 5;
        internal const int TokenBytes = 8;
        const int CommandBytesMax = 64;
        const int PlayerIdsMax = 16;

        // Strict: bytes that are no UTF-8 make no sense, rather than other letters.
        static readonly UTF8Encoding Utf8 = new UTF8Encoding(false, true);

        internal static byte[] WriteStamp(byte kind, uint stamp)
        {
            var bytes = new ByteWriter();
            bytes.Put(kind, 1);
            bytes.Put(stamp, 4);
            return bytes.ToArray();
        }

        internal static byte[] WriteToken(byte kind, byte[] token)
        {
            var bytes = new ByteWriter();
            bytes.Put(kind, 1);
            bytes.Put(token);
            return bytes.ToArray();
        }

        /// <exception cref="ArgumentException">The command is empty or too long, or there are too many players.
        /// </exception>
        internal static byte[] WriteMessage(
            string command, string dataJson, Target target, IList<long> playerIds, ushort stream, uint sequence)
        {
            var name = Utf8.GetBytes(command);
            if (name.Length < 1 || name.Length > CommandBytesMax)
                throw new ArgumentException("A command has 1 to 64 bytes, not " + name.Length);
            var count = target == Target.Specific && playerIds != null ? playerIds.Count : 0;
            if (count > PlayerIdsMax) throw new ArgumentException("At most 16 players, not " + count);
            var data = Utf8.GetBytes(dataJson);
            if (data.Length > ushort.MaxValue) return null;
            var bytes = new ByteWriter();
            bytes.Put(Message, 1);
            bytes.Put((ulong)target, 1);
            bytes.Put(stream, 2);
            bytes.Put(sequence, 4);
            bytes.Put((ulong)count, 1);
            for (var i = 0; i < count; i++) bytes.Put((ulong)playerIds[i], 8);
            bytes.Put((ulong)name.Length, 1);
            bytes.Put(name);
            bytes.Put((ulong)data.Length, 2);
            bytes.Put(data);
            return bytes.ToArray();
        }

        /// <summary>Return the frames of a server's packet; null if they make no sense.</summary>
        internal static List<FastFrame> Read(byte[] body)
        {
            var found = new List<FastFrame>();
            var bytes = new ByteReader(body);
            try
            {
                while (bytes.Left > 0)
                {
                    var kind = (byte)bytes.Take(1);
                    if (kind == Padding) break;
                    var frame = ReadFrame(kind, bytes);
                    if (frame == null) return null;
                    found.Add(frame);
                }
            }
            catch (ArgumentException) // cut off, or no UTF-8
            {
                return null;
            }
            return found;
        }

        static FastFrame ReadFrame(byte kind, ByteReader bytes)
        {
            var frame = new FastFrame { Kind = kind };
            switch (kind)
            {
                case Ping:
                case Pong:
                    frame.Stamp = (uint)bytes.Take(4);
                    return frame;
                case Challenge:
                case Response:
                    frame.Token = bytes.TakeBytes(TokenBytes);
                    return frame;
                case Message:
                    return ReadMessage(frame, bytes);
                default:
                    return null;
            }
        }

        static FastFrame ReadMessage(FastFrame frame, ByteReader bytes)
        {
            var flags = bytes.Take(1);
            frame.IsHost = (flags & 1) != 0;
            frame.IsServer = (flags & 2) != 0;
            frame.Stream = (ushort)bytes.Take(2);
            frame.Sequence = (uint)bytes.Take(4);
            frame.SenderId = (long)bytes.Take(8);
            var length = (int)bytes.Take(1);
            if (length < 1 || length > CommandBytesMax) return null;
            frame.Command = Utf8.GetString(bytes.TakeBytes(length));
            var data = bytes.TakeBytes((int)bytes.Take(2));
            frame.DataJson = data.Length == 0 ? "{}" : Lenient(data);
            return frame;
        }

        /// <summary>Return the text; null if it is no UTF-8, which drops this message alone.</summary>
        static string Lenient(byte[] data)
        {
            try { return Utf8.GetString(data); }
            catch (ArgumentException) { return null; }
        }
    }
}
