using System;
using System.Runtime.InteropServices;

namespace Greenroom.Tests
{
    /// <summary>`FOLDER` checks against the vectors in it; `play HOST:PORT` takes part in the scenario.</summary>
    static class Program
    {
        [DllImport("libc", EntryPoint = "_exit")]
        static extern void Exit(int code);

        public static int Main(string[] arguments)
        {
            try
            {
                if (arguments[0] == "play")
                {
                    ScenarioPlayer.Run(arguments[1]);
                    // Mono's own shutdown may wait for ever for an idle thread of its pool that has just
                    // begun, both if Main returns and in Environment.Exit.
                    Exit(0);
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
