// The official openai-node client, driven by lines of JSON exactly as driver.py is.

import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import OpenAI, { toFile } from 'openai';
import { VERSION } from 'openai/version';

const gathered = async (page) => {
  const rows = [];
  for await (const row of page) rows.push(row);
  return rows;
};

const calls = {
  version: async () => VERSION,
  upload: async (client, { path: place, purpose }) =>
    client.files.create({ file: await toFile(fs.readFileSync(place), path.basename(place)), purpose }),
  stream: async (client, { path: place, purpose }) =>
    client.files.create({ file: fs.createReadStream(place), purpose }),
  file: async (client, { id }) => client.files.retrieve(id),
  files: async (client) => gathered(client.files.list()),
  content: async (client, { id }) => (await client.files.content(id)).text(),
  create: async (client, { headers, ...body }) => client.batches.create(body, { headers }),
  batch: async (client, { id }) => client.batches.retrieve(id),
  batches: async (client, query) => gathered(client.batches.list(query)),
  cancel: async (client, { id }) => client.batches.cancel(id),
};

const told = (error) => ({
  class: error.constructor.name,
  status: error.status,
  code: error.code,
  param: error.param,
  type: error.type,
  request_id: error.requestID,
});

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const options = JSON.parse((await lines.next()).value);
const client = new OpenAI({
  baseURL: options.base_url,
  apiKey: options.api_key,
  maxRetries: options.max_retries,
});
for await (const line of lines) {
  const { op, api_key: apiKey, ...rest } = JSON.parse(line);
  const asking = apiKey === undefined ? client : client.withOptions({ apiKey });
  let answer;
  try {
    answer = { value: await calls[op](asking, rest) };
  } catch (error) {
    if (!(error instanceof OpenAI.APIError) || error.status === undefined) throw error;
    answer = { error: told(error) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
