// One webhook by undici: a keep-alive connection for each that is in flight, made once.
import { Pool } from 'undici';

export function createDeliver(connections) {
    const pools = new Map();
    const poolOf = (origin) => {
        let pool = pools.get(origin);
        if (!pool) {
            pool = new Pool(origin, { connections, pipelining: 1, keepAliveTimeout: 60000, headersTimeout: 10000 });
            pools.set(origin, pool);
        }
        return pool;
    };
    return async function deliver(id, task, attempt) {
        const url = new URL(task.url);
        const { statusCode, body } = await poolOf(url.origin).request({
            method: 'POST',
            path: url.pathname + url.search,
            headers: {
                'content-type': 'application/json',
                'webhook-id': id,
                'webhook-timestamp': String(Math.floor(Date.now() / 1000)),
                'duepost-attempt': String(attempt),
                'duepost-due': new Date(task.due).toISOString(),
            },
            body: JSON.stringify(task.payload),
        });
        await body.dump();
        if (statusCode < 200 || statusCode > 299) throw new Error(`status ${statusCode}`);
    };
}
