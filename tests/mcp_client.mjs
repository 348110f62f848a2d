// The official TypeScript client as an agent: `node mcp_client.mjs URL TOKEN`. It prints what it
// got from each request as one JSON object.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, token] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const client = new Client({ name: 'test', version: '1' });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

const start = { name: 'index', arguments: { url: 'https://host.example/acme/new', wait_s: 0.5 } };
const progress = [];
console.log(
  JSON.stringify({
    server: client.getServerVersion(),
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    found: await client.callTool({ name: 'search', arguments: { query: 'load' } }),
    refused: await client.callTool({ name: 'search', arguments: { query: '' } }),
    file: await client.readResource({ uri: 'codelode://file/acme%2Fapp/src/a.py' }),
    prompt: await client.getPrompt({ name: 'explain', arguments: { subject: 'src/a.py' } }),
    started: await client.callTool(start, { onprogress: (one) => progress.push(one.message) }),
    progress,
  }),
);
await client.close();
