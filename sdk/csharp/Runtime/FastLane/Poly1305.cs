using System;

namespace Greenroom
{
    /// <summary>The one-time authenticator of RFC 8439, in five limbs of 26 bits.</summary>
    internal sealed class Poly1305
    {
        const uint Mask = 0x3ffffff;
        const int BlockBytes = 16;

        readonly uint[] factor = new uint[5];
        readonly uint[] sum = new uint[5];
        readonly uint[] pad = new uint[4];
        readonly byte[] block = new byte[BlockBytes];

        /// <summary>Use the first 32 bytes as the key of one message.</summary>
        internal Poly1305(byte[] key)
        {
            factor[0] = ChaCha20Poly1305.ReadUint(key, 0) & 0x3ffffff;
            factor[1] = (ChaCha20Poly1305.ReadUint(key, 3) >> 2) & 0x3ffff03;
            factor[2] = (ChaCha20Poly1305.ReadUint(key, 6) >> 4) & 0x3ffc0ff;
            factor[3] = (ChaCha20Poly1305.ReadUint(key, 9) >> 6) & 0x3f03fff;
            factor[4] = (ChaCha20Poly1305.ReadUint(key, 12) >> 8) & 0x00fffff;
            for (var i = 0; i < 4; i++) pad[i] = ChaCha20Poly1305.ReadUint(key, 16 + 4 * i);
        }

        /// <summary>Add bytes, filled up with zeros to whole blocks.</summary>
        internal void AddPadded(byte[] bytes, int length)
        {
            for (var at = 0; at < length; at += BlockBytes)
            {
                var taken = Math.Min(BlockBytes, length - at);
                Array.Clear(block, 0, BlockBytes);
                Buffer.BlockCopy(bytes, at, block, 0, taken);
                AddBlock();
            }
        }

        void AddBlock()
        {
            sum[0] += ChaCha20Poly1305.ReadUint(block, 0) & Mask;
            sum[1] += (ChaCha20Poly1305.ReadUint(block, 3) >> 2) & Mask;
            sum[2] += (ChaCha20Poly1305.ReadUint(block, 6) >> 4) & Mask;
            sum[3] += (ChaCha20Poly1305.ReadUint(block, 9) >> 6) & Mask;
            sum[4] += (ChaCha20Poly1305.ReadUint(block, 12) >> 8) | (1u << 24);
            Multiply();
        }

        void Multiply()
        {
            var products = new ulong[5];
            for (var i = 0; i < 5; i++)
                for (var j = 0; j < 5; j++)
                {
                    var product = (ulong)sum[i] * factor[j];
                    products[(i + j) % 5] += i + j < 5 ? product : 5 * product;
                }
            ulong carry = 0;
            for (var i = 0; i < 5; i++)
            {
                carry += products[i];
                sum[i] = (uint)carry & Mask;
                carry >>= 26;
            }
            carry = sum[0] + 5 * carry;
            sum[0] = (uint)carry & Mask;
            sum[1] += (uint)(carry >> 26);
        }

        /// <summary>Return the tag; the object is of no use afterwards.</summary>
        internal byte[] Finish()
        {
            Carry(sum);
            Carry(sum);
            var less = new uint[5]; // the sum less the prime 2^130 - 5
            uint carry = 5;
            for (var i = 0; i < 5; i++)
            {
                carry += sum[i];
                less[i] = carry & Mask;
                carry >>= 26;
            }
            var isBelow = carry - 1; // all ones if the sum is below the prime, else 0
            for (var i = 0; i < 5; i++) sum[i] = (sum[i] & isBelow) | (less[i] & ~isBelow);
            var words = new[]
            {
                sum[0] | (sum[1] << 26), (sum[1] >> 6) | (sum[2] << 20),
                (sum[2] >> 12) | (sum[3] << 14), (sum[3] >> 18) | (sum[4] << 8),
            };
            var tag = new byte[BlockBytes];
            ulong whole = 0;
            for (var i = 0; i < 4; i++)
            {
                whole += (ulong)words[i] + pad[i];
                ChaCha20Poly1305.WriteUint(tag, 4 * i, (uint)whole);
                whole >>= 32;
            }
            return tag;
        }

        static void Carry(uint[] limbs)
        {
            uint carry = 0;
            for (var i = 0; i < 5; i++)
            {
                limbs[i] += carry;
                carry = limbs[i] >> 26;
                limbs[i] &= Mask;
            }
            limbs[0] += 5 * carry;
        }
    }
}
