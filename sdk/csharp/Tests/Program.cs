using System;

namespace Greenroom.Tests
{
    static class Program
    {
        public static int Main(string[] arguments)
        {
            try
            {
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
