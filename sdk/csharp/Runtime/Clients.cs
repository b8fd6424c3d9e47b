using System;
using System.Threading.Tasks;

namespace Greenroom
{
    /// <summary>The operations that need the game's project key alone. Begin here.</summary>
    public sealed partial class GameApi : IDisposable
    {
        readonly Caller caller;

        /// <summary>Prepare calls. Nothing is sent yet.</summary>
        /// <param name="url">The server's address, such as https://game.example.</param>
        /// <param name="apiToken">The game's project key.</param>
        /// <param name="options">How calls are made; the defaults if left out.</param>
        public GameApi(string url, string apiToken, CallerOptions options = null)
        {
            caller = new Caller(url, apiToken, options);
        }

        /// <summary>Return the operations of a player, who is known by the token that Register has answered.</summary>
        public PlayerApi Player(string playerToken)
        {
            return new PlayerApi(caller.With("X-Game-Player-Token", playerToken));
        }

        /// <summary>Close the connections, those of players included.</summary>
        public void Dispose()
        {
            caller.Dispose();
        }
    }

    /// <summary>The operations of one player, and the way into a room in real time.</summary>
    public sealed partial class PlayerApi
    {
        readonly Caller caller;

        internal PlayerApi(Caller caller)
        {
            this.caller = caller;
        }

        /// <summary>Connect to the room in which the player has a seat. The room must be a realtime one.</summary>
        /// <param name="roomId">The room's id.</param>
        /// <param name="options">How the channel keeps itself open; the defaults if left out.</param>
        /// <exception cref="GreenroomException">The connection could not be opened.</exception>
        public Task<RoomChannel> Connect(string roomId, ChannelOptions options = null)
        {
            return RoomChannel.Connect(this, roomId, options);
        }
    }
}
