/** Commands on the selection: similar code, usages, an explanation, a permalink. */

import * as vscode from "vscode";
import { ExplainAnswer, FileLines, Gateway, GatewayError, GraphAnswer, SearchAnswer } from "./api";
import { Connection } from "./connection";
import { Documents } from "./documents";
import { PlaceItem, hitItem, item, note, plain, section, show } from "./places";

interface Asked {
  gateway: Gateway;
  documents: Documents;
  editor: vscode.TextEditor;
  repository: string; // of the document; empty if it is not indexed
  path: string;
}

/** Return a command that works on the active editor. */
export function onSelection(
  connection: Connection,
  documents: Documents,
  run: (asked: Asked) => Promise<void>,
): () => Promise<void> {
  return async () => {
    const editor = vscode.window.activeTextEditor;
    if (!editor) throw new Error("Open a file first.");
    const gateway = await connection.required();
    if (!gateway) return;
    const place = (await documents.placeOf(editor.document)) ?? { repository: "", path: "" };
    await run({ gateway, documents, editor, ...place });
  };
}

/** Show code like the selected code, or like the line at the cursor. */
export async function similar({ gateway, documents, editor }: Asked): Promise<void> {
  const { document, selection } = editor;
  const range = selection.isEmpty ? document.lineAt(selection.active.line).range : selection;
  const snippet = document.getText(range).trim();
  if (!snippet) throw new Error("Select code first.");
  const answer = await gateway.post<SearchAnswer>("/similar", { snippet });
  const items = answer.hits.map(hitItem);
  show("codelode: Similar Code", counted(items.length, "place"), all(items, answer.notices), documents);
}

/** Show what calls or imports the selected name, in all repositories. */
export async function usages(asked: Asked): Promise<void> {
  const subject = named(asked.editor);
  const answer = await about<GraphAnswer>(asked, "/graph", { subject, reverse: true, depth: 1 });
  const links = answer.links.filter((link) => link.relation !== "definitions");
  const relations = [...new Set(links.map((link) => link.relation))];
  const items = relations.flatMap((relation) => section(relation, users(links, relation)));
  const placeholder = counted(links.length, "use");
  show(`codelode: Who Uses ${subject}`, placeholder, all(items, answer.notices), asked.documents);
}

/** Show the definitions of the selected name, and the imports, importers, and tests of its files. */
export async function explain(asked: Asked): Promise<void> {
  const subject = named(asked.editor);
  const answer = await about<ExplainAnswer>(asked, "/explain", { subject });
  const definitions = answer.definitions.map((one) =>
    item(
      { ...one, line: one.start_line },
      `${one.kind} ${one.name}  ·  ${one.repository}`,
      [one.signature, one.doc].filter(Boolean).join("  —  "),
    ),
  );
  const items = [
    ...section("summary", sentences(answer.summary).map(note)),
    ...section("definitions", definitions),
    ...section("imported by", files(answer.imported_by, answer)),
    ...section("imports", files(answer.imports, answer)),
    ...section("tested by", files(answer.tests, answer)),
    ...section("notices", answer.notices.map(note)),
  ];
  show(`codelode: Explain ${subject}`, "Enter opens a file", items, asked.documents);
}

/** Copy a link to the selected lines at the indexed commit, at the code host or else at the gateway. */
export async function permalink(asked: Asked): Promise<void> {
  const { gateway, editor, repository, path } = asked;
  if (!repository) throw new Error("This file is not in an indexed repository.");
  const [start_line, end_line] = [editor.selection.start.line + 1, editor.selection.end.line + 1];
  const given = { repository, path, start_line, end_line };
  const { url, revision } = await gateway.get<FileLines>("/read", given);
  const lines = `${start_line}-${end_line}`;
  const page = new URLSearchParams({ repository, ref: revision, path, lines });
  await vscode.env.clipboard.writeText(url || `${gateway.server}/code?${page}`);
  void vscode.window.showInformationMessage("The permalink is copied.");
}

/** Ask about a name in the repository of the document, or in all if that does not have it. */
async function about<T>(
  { gateway, repository }: Asked,
  path: string,
  parameters: Record<string, string | number | boolean>,
): Promise<T> {
  try {
    return await gateway.get<T>(path, { ...parameters, repository });
  } catch (error) {
    if (!repository || !(error instanceof GatewayError) || error.status !== 404) throw error;
    return gateway.get<T>(path, parameters);
  }
}

/** Return the selected name, or the word at the cursor. */
function named({ document, selection }: vscode.TextEditor): string {
  const range = selection.isEmpty ? document.getWordRangeAtPosition(selection.active) : selection;
  const name = range ? document.getText(range).trim() : "";
  if (!name || /\s/.test(name)) throw new Error("Select a name, or put the cursor on it.");
  return name;
}

/** Return the sources of the links with this relation: links go from the user to what it uses. */
function users(links: GraphAnswer["links"], relation: string): PlaceItem[] {
  const sources = links.filter((link) => link.relation === relation).map((link) => link.source);
  return sources.map((one) =>
    item(one, [one.symbol, one.repository].filter(Boolean).join("  ·  "), ""),
  );
}

/** Return the paths as items. They open only if the answer covers one repository: paths name none. */
function files(paths: readonly string[], { coverage }: ExplainAnswer): PlaceItem[] {
  const [only, ...others] = coverage;
  return paths.map((path) => {
    if (!only || others.length) return { label: plain(path) };
    return item({ repository: only.repository, path, line: 1 }, only.repository, "");
  });
}

function sentences(text: string): string[] {
  return text.split(/(?<=\.)\s+(?=[A-Z])/);
}

function all(items: readonly PlaceItem[], notices: readonly string[]): PlaceItem[] {
  return [...items, ...section("notices", notices.map(note))];
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
