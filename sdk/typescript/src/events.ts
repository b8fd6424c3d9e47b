// Listeners by the name of what they listen to.

type Handler<Values extends unknown[]> = (...values: Values) => void;

/** Calls listeners. An error that one throws reaches the platform, and no other listener. */
export class Events<Map extends Record<keyof Map, unknown[]>> {
  private readonly handlers = new globalThis.Map<keyof Map, Set<Handler<never>>>();

  /** Call a function each time; return a function that ends that. */
  on<Name extends keyof Map>(name: Name, handler: Handler<Map[Name]>): () => void {
    const found = this.handlers.get(name) ?? new Set();
    this.handlers.set(name, found);
    found.add(handler);
    return () => found.delete(handler);
  }

  protected emit<Name extends keyof Map>(name: Name, ...values: Map[Name]): void {
    for (const handler of [...(this.handlers.get(name) ?? [])]) {
      try {
        (handler as Handler<Map[Name]>)(...values);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
