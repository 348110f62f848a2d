/** Calls of the gateway's REST API, and the parts of its answers that the extension uses. */

/** Maximum wait for an answer, milliseconds; the gateway itself gives up after 60 s. */
const TIMEOUT_MS = 65_000;

export interface Repository {
  name: string;
  url: string;
}

export interface Run {
  state: string;
  done: number;
  total: number;
}

export interface Status {
  version: string;
  repositories: (Repository & { refs: { health: { language: string }[] }[] })[];
  runs: Run[];
  chunks: number;
  problems: string[];
  servers: { role: string; problem: string }[];
}

export interface Hit {
  repository: string;
  path: string;
  start_line: number;
  end_line: number;
  symbol: string;
  content: string;
  line: number;
  revision: string;
  copies?: { repository: string }[];
}

export interface SearchAnswer {
  hits: Hit[];
  notices: string[];
}

export interface Filters {
  repositories: string[];
  languages: string[];
  paths: string[];
}

export interface FileLines {
  end_line: number;
  line_count: number;
  content: string;
  url: string;
  revision: string;
}

interface GraphNode {
  repository: string;
  path: string;
  symbol: string;
  line: number;
}

export interface GraphAnswer {
  links: { relation: string; source: GraphNode; target: GraphNode }[];
  notices: string[];
}

export interface ExplainAnswer {
  summary: string;
  definitions: {
    repository: string;
    path: string;
    start_line: number;
    end_line: number;
    name: string;
    kind: string;
    signature: string;
    doc: string;
  }[];
  imports: string[];
  imported_by: string[];
  tests: string[];
  notices: string[];
  coverage: { repository: string }[];
}

/** A refusal, or no answer (status 0); the message says what to do. */
export class GatewayError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

/** A gateway, and the token for its calls. */
export class Gateway {
  constructor(
    readonly server: string,
    readonly token: string,
  ) {}

  get<T>(path: string, parameters: Record<string, string | number | boolean> = {}): Promise<T> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) query.set(name, String(value));
    return this.call<T>(`${path}?${query}`, {});
  }

  post<T>(path: string, body: object, signal?: AbortSignal): Promise<T> {
    const headers = { "Content-Type": "application/json" };
    return this.call<T>(path, { method: "POST", body: JSON.stringify(body), headers, signal });
  }

  private async call<T>(path: string, options: RequestInit): Promise<T> {
    const headers = { ...options.headers, Authorization: `Bearer ${this.token}` };
    const limit = AbortSignal.timeout(TIMEOUT_MS);
    const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
    let response: Response;
    try {
      response = await fetch(`${this.server}/api/v1${path}`, { ...options, headers, signal });
    } catch (error) {
      if (options.signal?.aborted) throw error;
      throw new GatewayError(
        `The gateway at ${this.server} does not answer (${reason(error)}). ` +
          'Start it, or choose another one with "codelode: Connect".',
        0,
      );
    }
    return this.answer<T>(response);
  }

  private async answer<T>(response: Response): Promise<T> {
    const body: unknown = await response.json().catch(() => undefined);
    if (response.ok && body !== undefined) return body as T;
    const detail = (body as { detail?: string } | undefined)?.detail;
    const unknown = `${this.server} answers with status ${response.status}; is it the HTTP port of a gateway?`;
    throw new GatewayError(detail ?? unknown, response.status);
  }
}

/** Return why a request failed; `fetch` puts the reason into the cause of its error. */
function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause as { code?: string; message?: string } | undefined;
  return cause?.code || cause?.message || error.message;
}

/** Return the message of an error. */
export function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
