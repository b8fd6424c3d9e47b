using Greenroom;
using UnityEngine;

/// <summary>Plays a round when the scene starts, and tells the console how it goes.</summary>
public sealed class GuessingBehaviour : MonoBehaviour
{
    [SerializeField] string url = "http://127.0.0.1:8080";
    [SerializeField] string projectKey = "";
    GuessingGame game;

    async void Start()
    {
        game = new GuessingGame(url, projectKey, line => Debug.Log(line));
        try
        {
            await game.Play();
        }
        catch (GreenroomException error)
        {
            Debug.LogError(error.Message);
        }
    }

    void Update()
    {
        if (game != null) game.Poll();
    }

    void OnDestroy()
    {
        if (game != null) game.Dispose();
    }
}
