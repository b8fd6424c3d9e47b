namespace Greenroom
{
    /// <summary>A text that is JSON already, and is written as it is.</summary>
    internal sealed class RawJson
    {
        internal readonly string Text;

        RawJson(string text)
        {
            Text = text;
        }

        /// <summary>Return the text to be written; null for an empty one, which is left out.</summary>
        internal static RawJson Of(string text)
        {
            return string.IsNullOrEmpty(text) ? null : new RawJson(text);
        }
    }
}
