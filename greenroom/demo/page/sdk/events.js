export class Events {
    handlers = new globalThis.Map();
    on(name, handler) {
        const found = this.handlers.get(name) ?? new Set();
        this.handlers.set(name, found);
        found.add(handler);
        return () => found.delete(handler);
    }
    emit(name, ...values) {
        for (const handler of [...(this.handlers.get(name) ?? [])]) {
            try {
                handler(...values);
            }
            catch (error) {
                queueMicrotask(() => {
                    throw error;
                });
            }
        }
    }
}
