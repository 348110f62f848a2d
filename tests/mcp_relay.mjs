// A relay that adds a token, for programs that cannot: `node mcp_relay.mjs HOST PORT TOKEN`. It
// prints its own port when it serves.
import http from 'node:http';

const [host, port, token] = process.argv.slice(2);
const relay = http.createServer((request, response) => {
  const headers = { ...request.headers, authorization: `Bearer ${token}` };
  const to = { host, port, path: request.url, method: request.method, headers };
  const passed = http.request(to, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  passed.on('error', () => response.destroy());
  request.pipe(passed);
});
relay.listen(0, '127.0.0.1', () => console.log(relay.address().port));
