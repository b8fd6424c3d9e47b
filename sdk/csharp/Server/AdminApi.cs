using System;

namespace Greenroom.Server
{
    /// <summary>
    /// The operations of the game's owner, for a studio's own services. The private key must never be in a game
    /// that players get: so this is an assembly of its own.
    /// </summary>
    public sealed partial class AdminApi : IDisposable
    {
        readonly Caller root, caller;

        /// <summary>Prepare calls. Nothing is sent yet.</summary>
        /// <param name="url">The server's address, such as https://game.example.</param>
        /// <param name="apiToken">The game's project key.</param>
        /// <param name="privateToken">The game's admin key.</param>
        /// <param name="options">How calls are made; the defaults if left out.</param>
        public AdminApi(string url, string apiToken, string privateToken, CallerOptions options = null)
        {
            root = new Caller(url, apiToken, options);
            caller = root.With("X-Api-Private-Token", privateToken);
        }

        /// <summary>Return the operations of a player; those that may carry the admin key do so.</summary>
        public PlayerApi Player(string playerToken)
        {
            return new PlayerApi(caller.With("X-Game-Player-Token", playerToken));
        }

        /// <summary>Close the connections.</summary>
        public void Dispose()
        {
            root.Dispose();
        }
    }
}
