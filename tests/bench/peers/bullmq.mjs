// BullMQ, by its guide "Going to production": connections that wait for Redis, finished jobs removed, and high
// concurrency for work that waits for the network.
import { Queue, Worker } from 'bullmq';
import IORedis from 'ioredis';

const NAME = 'hooks';
const connect = (path) => new IORedis({ path, maxRetriesPerRequest: null, enableAutoPipelining: true });

function toOptions(task) {
    const delay = task.due - Date.now();
    return {
        ...(delay > 0 && { delay }),
        attempts: 10,
        backoff: { type: 'exponential', delay: 1000 },
        removeOnComplete: true,
        removeOnFail: { age: 7 * 24 * 3600 },
    };
}

export async function openQueue(path) {
    const queue = new Queue(NAME, { connection: connect(path) });
    await queue.waitUntilReady();
    return {
        create: async (task) => (await queue.add('hook', task, toOptions(task))).id,
        createMany: async (tasks) => {
            const toJob = (task) => ({ name: 'hook', data: task, opts: toOptions(task) });
            const jobs = await queue.addBulk(tasks.map(toJob));
            return jobs.map((job) => job.id);
        },
    };
}

export async function startWorker(path, concurrency, deliver) {
    const worker = new Worker(NAME, (job) => deliver(job.id, job.data, job.attemptsMade + 1), {
        connection: connect(path),
        concurrency,
    });
    worker.on('error', (e) => console.error(e.message));
    await worker.waitUntilReady();
}
