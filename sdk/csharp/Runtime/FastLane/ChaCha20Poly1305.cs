using System;

namespace Greenroom
{
    /// <summary>
    /// The cipher of RFC 8439, for platforms whose class library has none: one key, packets small enough
    /// that nobody waits. Tested against the vectors of the protocol.
    /// </summary>
    internal sealed class ChaCha20Poly1305
    {
        internal const int KeyBytes = 32;
        internal const int NonceBytes = 12;
        internal const int TagBytes = 16;
        const int BlockBytes = 64;

        readonly uint[] start = new uint[16];
        readonly uint[] state = new uint[16];
        readonly byte[] block = new byte[BlockBytes];

        /// <summary>Use a key of 32 bytes. An object must not be used by two threads at once.</summary>
        internal ChaCha20Poly1305(byte[] key)
        {
            if (key.Length != KeyBytes) throw new ArgumentException("A key has 32 bytes, not " + key.Length);
            start[0] = 0x61707865;
            start[1] = 0x3320646e;
            start[2] = 0x79622d32;
            start[3] = 0x6b206574;
            for (var i = 0; i < 8; i++) start[4 + i] = ReadUint(key, 4 * i);
        }

        /// <summary>Return the body sealed, and behind it the tag.</summary>
        internal byte[] Seal(byte[] nonce, byte[] header, byte[] body)
        {
            var found = new byte[body.Length + TagBytes];
            Buffer.BlockCopy(body, 0, found, 0, body.Length);
            Cipher(nonce, found, body.Length);
            Buffer.BlockCopy(Tag(nonce, header, found, body.Length), 0, found, body.Length, TagBytes);
            return found;
        }

        /// <summary>Return the body; null if the packet is not as it was sealed.</summary>
        internal byte[] Open(byte[] nonce, byte[] header, byte[] packet, int offset)
        {
            var length = packet.Length - offset - TagBytes;
            if (length < 0) return null;
            var body = new byte[length];
            Buffer.BlockCopy(packet, offset, body, 0, length);
            var tag = Tag(nonce, header, body, length);
            var difference = 0; // all bytes are compared, so that time tells nothing
            for (var i = 0; i < TagBytes; i++) difference |= tag[i] ^ packet[offset + length + i];
            if (difference != 0) return null;
            Cipher(nonce, body, length);
            return body;
        }

        void Cipher(byte[] nonce, byte[] bytes, int length)
        {
            for (var at = 0; at < length; at += BlockBytes)
            {
                MakeBlock(nonce, 1 + (uint)(at / BlockBytes));
                var end = Math.Min(BlockBytes, length - at);
                for (var i = 0; i < end; i++) bytes[at + i] ^= block[i];
            }
        }

        byte[] Tag(byte[] nonce, byte[] header, byte[] body, int bodyLength)
        {
            MakeBlock(nonce, 0);
            var sum = new Poly1305(block);
            sum.AddPadded(header, header.Length);
            sum.AddPadded(body, bodyLength);
            var lengths = new byte[16];
            WriteUint(lengths, 0, (uint)header.Length);
            WriteUint(lengths, 8, (uint)bodyLength);
            sum.AddPadded(lengths, 16);
            return sum.Finish();
        }

        void MakeBlock(byte[] nonce, uint counter)
        {
            start[12] = counter;
            for (var i = 0; i < 3; i++) start[13 + i] = ReadUint(nonce, 4 * i);
            Array.Copy(start, state, 16);
            for (var round = 0; round < 10; round++)
            {
                for (var i = 0; i < 4; i++) Quarter(i, 4 + i, 8 + i, 12 + i);
                for (var i = 0; i < 4; i++) Quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
            }
            for (var i = 0; i < 16; i++) WriteUint(block, 4 * i, unchecked(state[i] + start[i]));
        }

        void Quarter(int a, int b, int c, int d)
        {
            unchecked
            {
                state[a] += state[b]; state[d] = Rotate(state[d] ^ state[a], 16);
                state[c] += state[d]; state[b] = Rotate(state[b] ^ state[c], 12);
                state[a] += state[b]; state[d] = Rotate(state[d] ^ state[a], 8);
                state[c] += state[d]; state[b] = Rotate(state[b] ^ state[c], 7);
            }
        }

        static uint Rotate(uint value, int bits)
        {
            return (value << bits) | (value >> (32 - bits));
        }

        internal static uint ReadUint(byte[] bytes, int at)
        {
            return bytes[at] | ((uint)bytes[at + 1] << 8) | ((uint)bytes[at + 2] << 16) | ((uint)bytes[at + 3] << 24);
        }

        internal static void WriteUint(byte[] bytes, int at, uint value)
        {
            for (var i = 0; i < 4; i++) bytes[at + i] = (byte)(value >> (8 * i));
        }
    }
}
