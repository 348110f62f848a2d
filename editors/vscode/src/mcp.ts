/** Writes the entry for the gateway into the MCP configuration of the open folder. */

import * as vscode from "vscode";
import { Connection } from "./connection";

interface Configuration {
  servers?: Record<string, unknown>;
  inputs?: { id: string }[];
}

/** The editor asks for the token once and keeps it; the file never contains it. */
const INPUT = {
  type: "promptString",
  id: "codelode-token",
  description: "API key or token of the codelode gateway",
  password: true,
};

/** Add codelode to `.vscode/mcp.json`, and show the file. */
export async function setUpMcp(connection: Connection): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0];
  if (!folder) throw new Error("Open a folder first: this command changes its .vscode/mcp.json.");
  const gateway = await connection.required();
  if (!gateway) return;
  const file = vscode.Uri.joinPath(folder.uri, ".vscode", "mcp.json");
  const changed = withServer(await read(file, gateway.server), gateway.server);
  const text = `${JSON.stringify(changed, undefined, 2)}\n`;
  await vscode.workspace.fs.writeFile(file, new TextEncoder().encode(text));
  await vscode.window.showTextDocument(file);
}

function withServer(found: Configuration, server: string): Configuration {
  const entry = {
    type: "http",
    url: `${server}/mcp`,
    headers: { Authorization: `Bearer \${input:${INPUT.id}}` },
  };
  const others = (found.inputs ?? []).filter((one) => one.id !== INPUT.id);
  return { ...found, servers: { ...found.servers, codelode: entry }, inputs: [...others, INPUT] };
}

async function read(file: vscode.Uri, server: string): Promise<Configuration> {
  let bytes: Uint8Array;
  try {
    bytes = await vscode.workspace.fs.readFile(file);
  } catch (error) {
    if (error instanceof vscode.FileSystemError && error.code === "FileNotFound") return {};
    throw error;
  }
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new Error(
      `${file.fsPath} is not changed, because it has comments, which would be lost, or errors. ` +
        `Correct errors, or run: codelode mcp install vscode --project --http ${server}`,
    );
  }
}
