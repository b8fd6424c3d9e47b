using System;
using System.Globalization;

namespace Greenroom
{
    /// <summary>Bytes as hexadecimal digits.</summary>
    internal static class Hex
    {
        /// <exception cref="ArgumentException">The text is none.</exception>
        internal static byte[] Read(string digits)
        {
            if (digits == null || digits.Length % 2 != 0) throw new ArgumentException("No pairs of hexadecimal digits");
            var bytes = new byte[digits.Length / 2];
            for (var i = 0; i < bytes.Length; i++)
                if (!byte.TryParse(
                    digits.Substring(2 * i, 2), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out bytes[i]))
                    throw new ArgumentException("No hexadecimal digits");
            return bytes;
        }

        internal static string Write(byte[] bytes)
        {
            return BitConverter.ToString(bytes).Replace("-", "").ToLowerInvariant();
        }
    }
}
