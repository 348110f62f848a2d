// A real OpenID Connect provider for the tests: `node server.mjs`. It prints its issuer when it
// serves. Everybody may log in under every name; `NAME@example.org` is in the group `search`.
import http from 'node:http';
import { Provider } from 'oidc-provider';

const server = http.createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const issuer = `http://127.0.0.1:${server.address().port}`;

const claimsOf = (id) => ({ email: `${id}@example.org`, email_verified: true, groups: ['search'] });

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'ci',
      client_secret: 'secret',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
    },
    {
      client_id: 'codelode',
      application_type: 'native',
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: ['http://127.0.0.1/callback', 'http://127.0.0.1/sign-in/callback'],
    },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
  conformIdTokenClaims: false,
  scopes: ['openid', 'offline_access', 'email', 'groups'],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...claimsOf(id) }) }),
  extraTokenClaims: (_, token) => claimsOf(token.accountId ?? token.clientId),
  rotateRefreshToken: true,
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (_, client) => (client.clientId === 'ci' ? 'urn:codelode' : undefined),
      getResourceServerInfo: () => ({
        audience: 'codelode',
        scope: '',
        accessTokenFormat: 'jwt',
        accessTokenTTL: 300,
      }),
    },
  },
  ttl: { IdToken: Number(process.env.ID_TOKEN_TTL ?? 300) },
});

server.on('request', provider.callback());
console.log(issuer);
