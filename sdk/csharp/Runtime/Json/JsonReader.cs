using System;
using System.Globalization;
using System.Text;

namespace Greenroom
{
    /// <summary>Reads one text of JSON.</summary>
    internal sealed class JsonReader
    {
        readonly string text;
        int at;
        int depth;

        internal JsonReader(string text)
        {
            this.text = text;
        }

        internal object ReadWhole()
        {
            var value = ReadValue();
            SkipSpace();
            if (at < text.Length) throw Wrong("the end");
            return value;
        }

        object ReadValue()
        {
            SkipSpace();
            switch (Peek())
            {
                case '{': return ReadObject();
                case '[': return ReadArray();
                case '"': return ReadString();
                case 't': return ReadWord("true", true);
                case 'f': return ReadWord("false", false);
                case 'n': return ReadWord("null", null);
                default: return ReadNumber();
            }
        }

        JsonObject ReadObject()
        {
            var found = new JsonObject();
            Enter();
            if (!TryTake('}'))
            {
                do
                {
                    SkipSpace();
                    if (Peek() != '"') throw Wrong("a name");
                    var name = ReadString();
                    SkipSpace();
                    Take(':');
                    found[name] = ReadValue();
                    SkipSpace();
                } while (TryTake(','));
                Take('}');
            }
            depth--;
            return found;
        }

        JsonArray ReadArray()
        {
            var found = new JsonArray();
            Enter();
            if (!TryTake(']'))
            {
                do
                {
                    found.Add(ReadValue());
                    SkipSpace();
                } while (TryTake(','));
                Take(']');
            }
            depth--;
            return found;
        }

        void Enter()
        {
            at++;
            if (++depth > Json.DepthMax) throw new FormatException("The JSON is nested too deeply");
            SkipSpace();
        }

        string ReadString()
        {
            at++;
            var begin = at;
            StringBuilder built = null;
            while (true)
            {
                var c = Peek();
                if (c < ' ') throw Wrong("a string");
                if (c == '"') break;
                if (c != '\\')
                {
                    at++;
                    if (built != null) built.Append(c);
                    continue;
                }
                if (built == null) built = new StringBuilder(text, begin, at - begin, 2 * (at - begin) + 16);
                at++;
                built.Append(ReadEscape());
            }
            var found = built == null ? text.Substring(begin, at - begin) : built.ToString();
            at++;
            return found;
        }

        char ReadEscape()
        {
            var c = Peek();
            at++;
            switch (c)
            {
                case '"': case '\\': case '/': return c;
                case 'b': return '\b';
                case 'f': return '\f';
                case 'n': return '\n';
                case 'r': return '\r';
                case 't': return '\t';
                case 'u': return ReadCodeUnit();
                default: throw Wrong("an escape");
            }
        }

        char ReadCodeUnit()
        {
            int unit = 0;
            for (var end = at + 4; at < end; at++)
            {
                var digit = "0123456789abcdef".IndexOf(char.ToLowerInvariant(Peek()));
                if (digit < 0) throw Wrong("four hexadecimal digits");
                unit = 16 * unit + digit;
            }
            return (char)unit;
        }

        object ReadNumber()
        {
            var begin = at;
            if (Peek() == '-') at++;
            var digits = at;
            SkipDigits();
            if (text[digits] == '0' && at > digits + 1) throw Wrong("a number without a leading 0");
            var isWhole = true;
            if (at < text.Length && text[at] == '.')
            {
                isWhole = false;
                at++;
                SkipDigits();
            }
            if (at < text.Length && (text[at] == 'e' || text[at] == 'E'))
            {
                isWhole = false;
                at++;
                if (Peek() == '+' || Peek() == '-') at++;
                SkipDigits();
            }
            return Number(text.Substring(begin, at - begin), isWhole);
        }

        static object Number(string digits, bool isWhole)
        {
            long whole;
            const NumberStyles Sign = NumberStyles.AllowLeadingSign;
            if (isWhole && long.TryParse(digits, Sign, CultureInfo.InvariantCulture, out whole)) return whole;
            double found;
            var isDouble = double.TryParse(digits, NumberStyles.Float, CultureInfo.InvariantCulture, out found);
            if (!isDouble || double.IsInfinity(found)) throw new FormatException("The number is too large: " + digits);
            return found;
        }

        void SkipDigits()
        {
            var begin = at;
            while (at < text.Length && text[at] >= '0' && text[at] <= '9') at++;
            if (at == begin) throw Wrong("a value");
        }

        object ReadWord(string word, object value)
        {
            if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0) throw Wrong(word);
            at += word.Length;
            return value;
        }

        void SkipSpace()
        {
            while (at < text.Length && " \t\r\n".IndexOf(text[at]) >= 0) at++;
        }

        char Peek()
        {
            if (at >= text.Length) throw new FormatException("The JSON is cut off");
            return text[at];
        }

        bool TryTake(char wanted)
        {
            if (Peek() != wanted) return false;
            at++;
            return true;
        }

        void Take(char wanted)
        {
            if (!TryTake(wanted)) throw Wrong(wanted.ToString());
        }

        FormatException Wrong(string wanted)
        {
            return new FormatException("Not JSON: expected " + wanted + " at character " + at);
        }
    }
}
