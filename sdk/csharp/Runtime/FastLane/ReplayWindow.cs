namespace Greenroom
{
    /// <summary>Which packet numbers have come already: each is taken once, very old ones never.</summary>
    internal sealed class ReplayWindow
    {
        const int Size = 1024;

        readonly bool[] seen = new bool[Size];
        ulong skipped;

        /// <summary>The highest number taken; 0 before the first.</summary>
        internal ulong Highest { get; private set; }

        /// <summary>How many were taken.</summary>
        internal ulong Taken { get; private set; }

        /// <summary>How many have not come; a jump of more than the window is no loss.</summary>
        internal ulong Lost
        {
            get { return Highest - skipped > Taken ? Highest - skipped - Taken : 0; }
        }

        internal bool IsFresh(ulong number)
        {
            if (number > Highest) return true;
            return number > 0 && Highest - number < Size && !seen[number % Size];
        }

        /// <summary>Note a fresh number, once its packet has proved genuine.</summary>
        internal void Take(ulong number)
        {
            if (number > Highest)
            {
                var ahead = number - Highest;
                for (ulong i = 1; i <= ahead && i <= Size; i++) seen[(number - i + 1) % Size] = false;
                if (ahead > Size) skipped += ahead - 1;
                Highest = number;
            }
            seen[number % Size] = true;
            Taken++;
        }
    }
}
