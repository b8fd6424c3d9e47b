using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;

namespace Greenroom.Tests
{
    /// <summary>Compares the fast lane with the vectors of the protocol, and reads and writes JSON.</summary>
    static class VectorTests
    {
        internal static void Run(string vectorsPath)
        {
            var vectors = Json.ParseObject(File.ReadAllText(vectorsPath));
            foreach (JsonObject vector in vectors.GetArray("frames")) CheckFrame(vector);
            var packets = vectors.GetArray("packets").Cast<JsonObject>()
                .Where(vector => vector.GetString("suite") == "chacha20-poly1305").ToArray();
            Check.That(packets.Length > 0, "there are packets of our suite");
            foreach (var vector in packets) CheckPacket(vector);
            foreach (JsonObject vector in vectors.GetArray("messages")) CheckMessage(vector);
        }

        static void CheckFrame(JsonObject vector)
        {
            var name = vector.GetString("name");
            var fields = vector.GetObject("fields");
            var bytes = vector.GetString("bytes");
            switch (vector.GetString("type"))
            {
                case "Ping":
                    CheckStamp(name, FastFrames.Ping, fields, bytes);
                    break;
                case "Pong":
                    CheckStamp(name, FastFrames.Pong, fields, bytes);
                    break;
                case "Challenge":
                    CheckToken(name, FastFrames.Challenge, fields, bytes);
                    break;
                case "Response":
                    CheckToken(name, FastFrames.Response, fields, bytes);
                    break;
                case "Sent":
                    Check.Equal(bytes, Hex.Write(WriteSent(fields)), name);
                    break;
                default:
                    CheckReceived(name, fields, bytes);
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

        static byte[] WriteSent(JsonObject fields)
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
            var sealedOnes = FastLaneEnd.Seal(
                Hex.Read(vector.GetString("session")), (ulong)vector.GetLong("number"), Hex.Read(body), cipher);
            Check.Equal(vector.GetString("packet"), Hex.Write(sealedOnes), "a packet sealed");
            Check.Equal(body, Hex.Write(FastLaneEnd.Open(packet, cipher)), "a packet opened");
            for (var i = 0; i < packet.Length; i++)
            {
                packet[i] ^= 1;
                Check.That(FastLaneEnd.Open(packet, cipher) == null, "a packet with byte " + i + " changed");
                packet[i] ^= 1;
            }
        }

        static void CheckMessage(JsonObject vector)
        {
            var name = vector.GetString("name");
            var fields = vector.GetObject("fields");
            var frame = Json.ParseObject(vector.GetString("text"));
            if (vector.GetString("from") == "client")
            {
                if (!(fields.Get("request_id") is string)) return; // ids of ours are strings
                var sent = Json.ParseObject(Frames.Action(
                    fields.GetString("request_id"), fields.GetString("action_type"),
                    fields.GetString("request_data"), fields.GetOptionalLong("target_id"), false));
                Check.Equal(frame.GetString("type"), sent.GetString("type"), name);
                Check.Equal(frame.GetString("id"), sent.GetString("id"), name);
                Check.Equal(frame.GetDocument("request_data"), sent.GetString("request_data_json"), name);
                return;
            }
            var result = ActionResult.Read(frame);
            Check.Equal(fields.GetString("action_id"), result.ActionId, name);
            Check.Equal(fields.GetString("status"), result.Status, name);
            Check.Equal(fields.GetLong("target_id"), result.TargetId, name);
            Check.Equal(fields.GetBool("is_server"), result.IsServer, name);
            Check.Equal(fields.GetString("response_data") ?? "{}", result.ResponseDataJson, name);
            Check.Equal(new DateTime(2026, 3, 13, 14, 1, 49, DateTimeKind.Utc), result.ProcessedAt.Value, name);
        }
    }

    /// <summary>Says what is not as it should be, and ends the program.</summary>
    static class Check
    {
        internal static int Count;

        internal static void That(bool isSo, string what)
        {
            Count++;
            if (!isSo) throw new Exception("Not so: " + what);
        }

        internal static void Equal<T>(T wanted, T found, string what)
        {
            That(EqualityComparer<T>.Default.Equals(wanted, found), what + ": " + found + " is not " + wanted);
        }
    }
}
