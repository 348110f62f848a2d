/** Finds the cluster of `codelode up` on the machine where the extension runs. */

import * as vscode from "vscode";
import { Gateway } from "./api";

/** Node's global variable, which does not exist if the editor runs in a browser. */
declare const process:
  | { env: Record<string, string | undefined>; kill(pid: number, signal: 0): void }
  | undefined;

interface Cluster {
  pid: number; // of `codelode up`
  http: string; // URL of the gateway
  data: string; // folder
}

/** Return the gateway of the cluster that the user's commands find; undefined if none runs. */
export async function localGateway(): Promise<Gateway | undefined> {
  for (const name of ["up.json", "other.json"]) {
    const cluster = parsed(await text(`${dataFolder()}/run/${name}`));
    if (!cluster?.http || !runs(cluster.pid)) continue;
    return new Gateway(cluster.http, (await text(`${cluster.data}/run/token`)).trim());
  }
  return undefined;
}

/** Return whether the process runs; if it is dead, another program may use its port. */
function runs(pid: number): boolean {
  try {
    process?.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function dataFolder(): string {
  const variables = typeof process === "undefined" ? {} : process.env;
  return variables.CODELODE_DATA || `${variables.HOME ?? ""}/.local/share/codelode`;
}

async function text(path: string): Promise<string> {
  try {
    return new TextDecoder().decode(await vscode.workspace.fs.readFile(vscode.Uri.file(path)));
  } catch {
    return ""; // missing, or another user's
  }
}

function parsed(json: string): Cluster | undefined {
  try {
    return JSON.parse(json);
  } catch {
    return undefined; // missing, or half written
  }
}
