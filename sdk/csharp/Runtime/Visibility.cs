using System.Runtime.CompilerServices;

[assembly: InternalsVisibleTo("Greenroom.Server")]
[assembly: InternalsVisibleTo("Greenroom.Tests")]
