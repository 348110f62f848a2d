/** Registers the commands, the documents, and the status bar item. */

import * as vscode from "vscode";
import { Connection, report } from "./connection";
import { Documents, SCHEME } from "./documents";
import { setUpMcp } from "./mcp";
import { search } from "./search";
import { explain, onSelection, permalink, similar, usages } from "./selection";
import { watch } from "./status";

export function activate(context: vscode.ExtensionContext): void {
  const connection = new Connection(context);
  const documents = new Documents(connection);
  const commands: Record<string, () => Promise<unknown>> = {
    connect: () => connection.connect(),
    disconnect: () => connection.disconnect(),
    search: () => search(context, connection, documents),
    similar: onSelection(connection, documents, similar),
    usages: onSelection(connection, documents, usages),
    explain: onSelection(connection, documents, explain),
    permalink: onSelection(connection, documents, permalink),
    mcp: () => setUpMcp(connection),
  };
  for (const [name, run] of Object.entries(commands)) {
    const reported = () => run().catch(report);
    context.subscriptions.push(vscode.commands.registerCommand(`codelode.${name}`, reported));
  }
  context.subscriptions.push(
    vscode.workspace.registerTextDocumentContentProvider(SCHEME, documents),
    watch(connection),
  );
}
