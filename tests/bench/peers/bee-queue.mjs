// bee-queue, by its README: events and the job cache off where nobody listens, finished jobs removed, delayed jobs
// activated by the workers. delayedDebounce (1000 by default) makes a delayed job up to that many ms late: the least.
import Queue from 'bee-queue';

const NAME = 'hooks';
const open = (path, isWorker) =>
    new Queue(NAME, {
        redis: { path },
        isWorker,
        activateDelayedJobs: isWorker,
        delayedDebounce: 1,
        getEvents: false,
        sendEvents: false,
        storeJobs: false,
        removeOnSuccess: true,
    });

function toJob(queue, task) {
    const job = queue.createJob(task).retries(9).backoff('exponential', 1000).timeout(10000);
    return task.due > Date.now() ? job.delayUntil(task.due) : job;
}

export async function openQueue(path) {
    const queue = await open(path, false).ready();
    return {
        create: async (task) => String((await toJob(queue, task).save()).id),
        createMany: async (tasks) => {
            const jobs = tasks.map((task) => toJob(queue, task));
            const errors = await queue.saveAll(jobs);
            if (errors.size > 0) throw errors.values().next().value;
            return jobs.map((job) => String(job.id));
        },
    };
}

export async function startWorker(path, concurrency, deliver) {
    const queue = await open(path, true).ready();
    queue.on('error', (e) => console.error(e.message));
    queue.process(concurrency, (job) => deliver(String(job.id), job.data, 1));
}
