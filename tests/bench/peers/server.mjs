// A delayed-task gateway as one would build it in Node: fastify takes tasks, a queue library keeps them in Redis, and
// undici delivers them. The same calls as Duepost's, as far as the benchmark uses them.
//
//   node server.mjs bullmq|bee-queue REDIS_SOCKET
//
// API_PROCESSES (1) take requests and WORKER_PROCESSES (1) deliver, CONCURRENCY (256) at once in all. Prints the port.
import cluster from 'node:cluster';
import fastify from 'fastify';
import { createDeliver } from './deliver.mjs';

const [system, socket] = process.argv.slice(2);
const count = (name, otherwise) => Number(process.env[name] || otherwise);
const apiProcesses = count('API_PROCESSES', 1);
const workerProcesses = count('WORKER_PROCESSES', 1);
const concurrency = Math.ceil(count('CONCURRENCY', 256) / workerProcesses);

const taskSchema = {
    type: 'object',
    required: ['url'],
    properties: {
        url: { type: 'string', maxLength: 2048 },
        delay: { type: 'integer', minimum: 0 },
        run_at: { type: 'integer' },
        payload: {},
    },
};
const createdSchema = {
    type: 'object',
    properties: {
        id: { type: 'string' },
        url: { type: 'string' },
        state: { type: 'string' },
        run_at: { type: 'string' },
    },
};

// What is kept of a request: Redis holds the due time, the URL and the payload.
function toTask(body) {
    const now = Date.now();
    return { url: body.url, due: Math.max(now, body.run_at ?? now + (body.delay ?? 0)), payload: body.payload };
}
function toAnswer(id, task) {
    return { id, url: task.url, state: 'scheduled', run_at: new Date(task.due).toISOString() };
}

async function serve(queue) {
    const app = fastify({ bodyLimit: 16 * 1024 * 1024 });
    const single = { body: taskSchema, response: { 201: createdSchema } };
    app.post('/tasks', { schema: single }, async (request, reply) => {
        const task = toTask(request.body);
        reply.code(201);
        return toAnswer(await queue.create(task), task);
    });
    const batch = { type: 'object', required: ['tasks'], properties: { tasks: { type: 'array', items: taskSchema } } };
    app.post('/tasks/batch', { schema: { body: batch } }, async (request) => {
        const tasks = request.body.tasks.map(toTask);
        const ids = await queue.createMany(tasks);
        return { results: tasks.map((task, i) => ({ status: 201, task: toAnswer(ids[i], task) })) };
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
}

async function runChild() {
    const library = await import(`./${system}.mjs`);
    if (process.env.ROLE === 'api') await serve(await library.openQueue(socket));
    else await library.startWorker(socket, concurrency, createDeliver(concurrency));
    process.send('ready');
}

// The processes with the API share one port.
function runPrimary() {
    const roles = [...Array(apiProcesses).fill('api'), ...Array(workerProcesses).fill('worker')];
    let port = 0;
    let ready = 0;
    cluster.on('listening', (_, address) => (port = address.port));
    cluster.on('message', () => {
        ready += 1;
        if (ready === roles.length) console.log(port);
    });
    cluster.on('exit', () => process.exit(1));
    const end = () => {
        for (const child of Object.values(cluster.workers)) child.process.kill('SIGKILL');
        process.exit(0);
    };
    process.on('SIGTERM', end);
    process.on('SIGINT', end);
    for (const ROLE of roles) cluster.fork({ ROLE });
}

if (cluster.isPrimary) runPrimary();
else await runChild();
