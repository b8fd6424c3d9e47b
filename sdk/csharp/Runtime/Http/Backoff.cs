using System;

namespace Greenroom
{
    /// <summary>Pauses after failures: random, so that clients that failed together come back apart.</summary>
    internal static class Backoff
    {
        /// <summary>Return how long to wait after so many failures in a row, from 1.</summary>
        internal static TimeSpan Pause(TimeSpan first, TimeSpan longest, int failures, Random chance)
        {
            var most = first.TotalSeconds * Math.Pow(2.0, Math.Min(failures - 1, 30));
            lock (chance)
                return TimeSpan.FromSeconds(chance.NextDouble() * Math.Min(most, longest.TotalSeconds));
        }
    }
}
