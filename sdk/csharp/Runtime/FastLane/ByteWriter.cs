using System;
using System.IO;

namespace Greenroom
{
    /// <summary>Writes numbers, the highest byte first.</summary>
    internal sealed class ByteWriter
    {
        readonly MemoryStream bytes = new MemoryStream();

        internal void Put(ulong value, int count)
        {
            for (var i = count - 1; i >= 0; i--) bytes.WriteByte((byte)(value >> (8 * i)));
        }

        internal void Put(byte[] value)
        {
            bytes.Write(value, 0, value.Length);
        }

        internal byte[] ToArray()
        {
            return bytes.ToArray();
        }
    }

    /// <summary>Reads numbers, the highest byte first.</summary>
    internal sealed class ByteReader
    {
        readonly byte[] bytes;
        int at;

        internal ByteReader(byte[] bytes, int at = 0)
        {
            this.bytes = bytes;
            this.at = at;
        }

        internal int Left { get { return bytes.Length - at; } }

        /// <exception cref="ArgumentException">There are not as many bytes.</exception>
        internal ulong Take(int count)
        {
            if (count > Left) throw new ArgumentException("The bytes are cut off");
            ulong value = 0;
            for (var i = 0; i < count; i++) value = (value << 8) | bytes[at++];
            return value;
        }

        /// <exception cref="ArgumentException">There are not as many bytes.</exception>
        internal byte[] TakeBytes(int count)
        {
            if (count > Left) throw new ArgumentException("The bytes are cut off");
            var taken = new byte[count];
            Buffer.BlockCopy(bytes, at, taken, 0, count);
            at += count;
            return taken;
        }
    }
}
