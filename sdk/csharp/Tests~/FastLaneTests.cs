using System;
using System.Collections.Generic;
using System.Linq;

namespace Greenroom.Tests
{
    /// <summary>Compares the fast lane with the vectors of its protocol.</summary>
    static class FastLaneTests
    {
        const string OurSuite = "chacha20-poly1305";
        static readonly byte[] AnyKey = new byte[ChaCha20Poly1305.KeyBytes];

        internal static void Run(JsonObject vectors)
        {
            foreach (var vector in VectorTests.Objects(vectors, "frames")) CheckFrame(vector);
            foreach (var vector in VectorTests.Objects(vectors, "malformed"))
                if (vector.GetString("from") == "server")
                    Check.That(FastFrames.Read(Hex.Read(vector.GetString("body"))) == null, vector.GetString("name"));
            var packets = VectorTests.Objects(vectors, "packets").Where(each => each.GetString("suite") == OurSuite);
            Check.That(packets.Any(), "there are packets of our suite");
            foreach (var vector in packets) CheckPacket(vector);
            foreach (var vector in VectorTests.Objects(vectors, "windows")) CheckWindow(vector);
            foreach (var vector in VectorTests.Objects(vectors, "streams")) CheckStream(vector);
            CheckSession(vectors.GetObject("session"));
        }

        static void CheckFrame(JsonObject vector)
        {
            var name = vector.GetString("name");
            var fields = vector.GetObject("fields");
            var bytes = vector.GetString("bytes");
            switch (vector.GetString("type"))
            {
                case "ping":
                    CheckStamp(name, FastFrames.Ping, fields, bytes);
                    break;
                case "pong":
                    CheckStamp(name, FastFrames.Pong, fields, bytes);
                    break;
                case "challenge":
                    CheckToken(name, FastFrames.Challenge, fields, bytes);
                    break;
                case "response":
                    CheckToken(name, FastFrames.Response, fields, bytes);
                    break;
                default:
                    if (vector.GetString("from") == "client") Check.Equal(bytes, Hex.Write(Write(fields)), name);
                    else CheckReceived(name, fields, bytes);
                    break;
            }
        }

        static void CheckStamp(string name, byte kind, JsonObject fields, string bytes)
        {
            var stamp = (uint)fields.GetLong("stamp");
            Check.Equal(bytes, Hex.Write(FastFrames.WriteStamp(kind, stamp)), name);
            Check.Equal(stamp, FastFrames.Read(Hex.Read(bytes)).Single().Stamp, name);
        }

        static void CheckToken(string name, byte kind, JsonObject fields, string bytes)
        {
            var token = fields.GetString("token");
            Check.Equal(bytes, Hex.Write(FastFrames.WriteToken(kind, Hex.Read(token))), name);
            Check.Equal(token, Hex.Write(FastFrames.Read(Hex.Read(bytes)).Single().Token), name);
        }

        static byte[] Write(JsonObject fields)
        {
            var target = (Target)Array.IndexOf(Frames.Targets, fields.GetString("target"));
            var ids = fields.GetArray("player_ids").Select(id => (long)id).ToArray();
            return FastFrames.WriteMessage(
                fields.GetString("command"), fields.GetString("data"), target, ids,
                (ushort)fields.GetLong("stream"), (uint)fields.GetLong("sequence"));
        }

        static void CheckReceived(string name, JsonObject fields, string bytes)
        {
            var frame = FastFrames.Read(Hex.Read(bytes)).Single();
            Check.Equal(fields.GetString("command"), frame.Command, name);
            Check.Equal(fields.GetString("data"), frame.DataJson, name);
            Check.Equal(fields.GetLong("sender_id"), frame.SenderId, name);
            Check.Equal(fields.GetLong("stream"), (long)frame.Stream, name);
            Check.Equal(fields.GetLong("sequence"), (long)frame.Sequence, name);
            Check.Equal(fields.GetBool("is_host"), frame.IsHost, name);
            Check.Equal(fields.GetBool("is_server"), frame.IsServer, name);
            for (var length = 1; length < bytes.Length / 2; length++)
                Check.That(FastFrames.Read(Hex.Read(bytes.Substring(0, 2 * length))) == null, name + ", cut off");
        }

        static void CheckPacket(JsonObject vector)
        {
            var cipher = new ChaCha20Poly1305(Hex.Read(vector.GetString("key")));
            var body = vector.GetString("body");
            var packet = Hex.Read(vector.GetString("packet"));
            var made = FastLaneEnd.Seal(
                Hex.Read(vector.GetString("session")), (ulong)vector.GetLong("number"), Hex.Read(body), cipher);
            Check.Equal(vector.GetString("packet"), Hex.Write(made), "a packet sealed");
            Check.Equal(body, Hex.Write(FastLaneEnd.Open(packet, cipher)), "a packet opened");
            for (var i = 0; i < packet.Length; i++)
            {
                packet[i] ^= 1;
                Check.That(FastLaneEnd.Open(packet, cipher) == null, "a packet with byte " + i + " changed");
                packet[i] ^= 1;
            }
        }

        static void CheckWindow(JsonObject vector)
        {
            var window = new ReplayWindow();
            var numbers = vector.GetArray("numbers");
            for (var i = 0; i < numbers.Count; i++)
            {
                var number = (ulong)(long)numbers[i];
                var isFresh = window.IsFresh(number);
                Check.Equal((bool)vector.GetArray("taken")[i], isFresh, vector.GetString("name"));
                if (isFresh) window.Take(number);
            }
            Check.Equal(vector.GetLong("lost"), (long)window.Lost, vector.GetString("name"));
        }

        static void CheckStream(JsonObject vector)
        {
            var end = new FastLaneEnd(new byte[8], AnyKey, AnyKey, 30.0);
            foreach (var message in VectorTests.Objects(vector, "messages"))
            {
                var frame = new FastFrame
                {
                    Kind = FastFrames.Message,
                    SenderId = message.GetLong("sender_id"),
                    Stream = (ushort)message.GetLong("stream"),
                    Sequence = (uint)message.GetLong("sequence"),
                };
                Check.Equal(message.GetBool("taken"), end.IsLatest(frame), vector.GetString("name"));
            }
        }

        /// <summary>Play the session, whose packets are of another suite, with the same frames in ours.</summary>
        static void CheckSession(JsonObject vector)
        {
            var session = Hex.Read(vector.GetString("session"));
            var clientKey = Hex.Read(vector.GetString("client_key"));
            var serverKey = Hex.Read(vector.GetString("server_key"));
            var end = new FastLaneEnd(session, clientKey, serverKey, 30.0);
            var server = new ChaCha20Poly1305(serverKey);
            var client = new ChaCha20Poly1305(clientKey);
            var answers = new List<byte[]> { end.MakePing(1.0) };
            ulong number = 0;
            foreach (var packet in VectorTests.Objects(vector, "packets"))
            {
                var body = new ByteWriter();
                foreach (var frame in VectorTests.Objects(packet, "frames")) body.Put(WriteSignal(frame));
                if (packet.GetString("from") == "server")
                {
                    var made = FastLaneEnd.Seal(session, ++number, body.ToArray(), server);
                    end.Receive(made, 1.0, answers);
                    end.Receive(made, 1.0, answers); // a second time it is dropped
                    continue;
                }
                Check.That(answers.Count == 1, "one packet is sent");
                var wanted = Hex.Write(body.ToArray());
                var sent = Hex.Write(FastLaneEnd.Open(answers[0], client));
                Check.Equal(wanted.PadRight(sent.Length, '0'), sent, "the frames of a session");
                answers.Clear();
            }
            Check.That(end.IsUp(1.0) && !end.IsUp(31.5), "the lane is up, until it hears nothing");
            Check.Equal(2L, end.Statistics.PacketsDropped, "packets that came twice");
        }

        static byte[] WriteSignal(JsonObject frame)
        {
            var kinds = new[] { "padding", "ping", "pong", "challenge", "response" };
            var kind = (byte)Array.IndexOf(kinds, frame.GetString("type"));
            var token = frame.GetString("token");
            if (token != null) return FastFrames.WriteToken(kind, Hex.Read(token));
            return FastFrames.WriteStamp(kind, (uint)frame.GetLong("stamp"));
        }
    }
}
