using System;

namespace Greenroom.Tests
{
    /// <summary>`FOLDER` checks against the vectors in it; `play HOST:PORT` takes part in the scenario.</summary>
    static class Program
    {
        public static int Main(string[] arguments)
        {
            try
            {
                if (arguments[0] == "play")
                {
                    ScenarioPlayer.Run(arguments[1]);
                    // Mono may wait for idle threads of its pool if Main returns: they are foreground
                    // threads for a moment as they begin.
                    Environment.Exit(0);
                }
                JsonTests.Run();
                VectorTests.Run(arguments[0]);
                Console.WriteLine(Check.Count + " checks");
                return 0;
            }
            catch (Exception error)
            {
                Console.Error.WriteLine(error);
                return 1;
            }
        }
    }
}
