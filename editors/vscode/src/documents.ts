/** Opens places in code: the file of the workspace if there is one, else a read-only document. */

import * as vscode from "vscode";
import { FileLines } from "./api";
import { Connection } from "./connection";
import { indexedFile, localFile } from "./workspaces";

export const SCHEME = "codelode";

export interface Place {
  repository: string;
  path: string;
  line: number; // 1-based
  revision?: string;
}

/** Provides the indexed text of files for documents `codelode:/repository/path`. */
export class Documents implements vscode.TextDocumentContentProvider {
  private opened = 0;

  constructor(private readonly connection: Connection) {}

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const { repository, path } = placeIn(uri);
    const gateway = await this.connection.gateway();
    if (!gateway) throw new Error('Choose a gateway first, with "codelode: Connect".');
    const parts: string[] = [];
    for (let line = 1; ; ) {
      const read = await gateway.get<FileLines>("/read", { repository, path, start_line: line });
      parts.push(read.content);
      if (read.end_line >= read.line_count || read.end_line < line) return parts.join("\n");
      line = read.end_line + 1; // an answer has at most 2,000 lines
    }
  }

  /** Show the place in an editor; a preview does not take the focus. */
  async open(place: Place, isPreview: boolean): Promise<void> {
    const number = ++this.opened;
    const local = await localFile(this.connection.repositories, place.repository, place.path);
    const document = await vscode.workspace.openTextDocument(local ?? uriOf(place));
    if (number !== this.opened) return; // another place was requested meanwhile
    const line = Math.max(0, place.line - 1);
    await vscode.window.showTextDocument(document, {
      preview: isPreview,
      preserveFocus: isPreview,
      selection: new vscode.Range(line, 0, line, 0),
    });
  }

  /** Return the repository and path of a document; undefined if it is in no indexed repository. */
  async placeOf(
    document: vscode.TextDocument,
  ): Promise<{ repository: string; path: string } | undefined> {
    if (document.uri.scheme === SCHEME) return placeIn(document.uri);
    return indexedFile(this.connection.repositories, document.uri);
  }
}

function uriOf({ repository, path, revision }: Place): vscode.Uri {
  const query = JSON.stringify({ repository, path, revision });
  return vscode.Uri.from({ scheme: SCHEME, path: `/${repository}/${path}`, query });
}

function placeIn(uri: vscode.Uri): { repository: string; path: string } {
  return JSON.parse(uri.query);
}
