/** The search: a list that follows what is typed, with filters and the history of queries. */

import * as vscode from "vscode";
import { SearchAnswer, Status, told } from "./api";
import { Connection, report } from "./connection";
import { Documents } from "./documents";
import { FilterName, parsed, withFilter } from "./query";
import { PlaceItem, follow, hitItem, note, plain } from "./places";

/** The pause in typing after which the query is sent, milliseconds. */
const PAUSE_MS = 200;
const HISTORY = "history";
const HISTORY_LENGTH = 50;
const TOP_K = 50;

interface FilterButton extends vscode.QuickInputButton {
  filter: FilterName;
}

interface SearchItem extends PlaceItem {
  query?: string; // from the history
}

const BUTTONS: readonly FilterButton[] = [
  { filter: "repo", iconPath: new vscode.ThemeIcon("repo"), tooltip: "Only these repositories" },
  { filter: "lang", iconPath: new vscode.ThemeIcon("code"), tooltip: "Only these languages" },
  { filter: "path", iconPath: new vscode.ThemeIcon("folder"), tooltip: "Only these paths" },
];

/** Show the search with this text. */
export async function search(
  context: vscode.ExtensionContext,
  connection: Connection,
  documents: Documents,
  text = "",
): Promise<void> {
  if (!connection.isChosen && !(await connection.connect())) return;
  const panel = new Panel(context, connection, documents);
  panel.onFilter = async (name, typed) => {
    const values = await chosen(connection, name, typed).catch(report);
    await search(context, connection, documents, values ? withFilter(typed, name, values) : typed);
  };
  panel.show(text);
}

class Panel {
  onFilter: (name: FilterName, typed: string) => void = () => {};
  private readonly picker = vscode.window.createQuickPick<SearchItem>();
  private running = new AbortController();
  private pause: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly connection: Connection,
    documents: Documents,
  ) {
    const { picker } = this;
    picker.title = "codelode: Search";
    picker.placeholder = "A question, a name, or code; repo:NAME lang:NAME path:GLOB filter";
    picker.buttons = BUTTONS;
    // Keep the order of the gateway. Editors that lack this property move matching labels up.
    (picker as { sortByLabel?: boolean }).sortByLabel = false;
    picker.onDidChangeValue(() => this.later());
    picker.onDidTriggerButton((button) => this.filter(button as FilterButton));
    picker.onDidAccept(() => this.accept());
    picker.onDidHide(() => this.end());
    follow(picker, documents);
  }

  show(text: string): void {
    this.picker.value = text;
    this.picker.show();
    void this.run();
  }

  private later(): void {
    clearTimeout(this.pause);
    this.pause = setTimeout(() => void this.run(), PAUSE_MS);
  }

  private async run(): Promise<void> {
    this.running.abort();
    const running = (this.running = new AbortController());
    this.picker.busy = true;
    const items = await this.found(running.signal).catch((error) => [failure(error)]);
    if (running.signal.aborted) return;
    this.picker.busy = false;
    this.picker.items = items.map((one) => ({ ...one, alwaysShow: true }));
  }

  private async found(signal: AbortSignal): Promise<SearchItem[]> {
    const { query, filters } = parsed(this.picker.value);
    if (!query) return history(this.context).map((one) => ({ label: `$(history) ${plain(one)}`, query: one }));
    const body = { query, filters, top_k: TOP_K };
    const gateway = await this.connection.gateway(); // a local cluster may have restarted elsewhere
    if (!gateway) return [note("Not connected")];
    const answer = await gateway.post<SearchAnswer>("/search", body, signal);
    const notes = answer.notices.map(note);
    const hits = answer.hits.map(hitItem);
    return hits.length ? [...hits, ...notes] : [note("Nothing was found"), ...notes];
  }

  private accept(): void {
    const [active] = this.picker.activeItems;
    if (active?.query !== undefined) {
      this.picker.value = active.query;
      void this.run();
    } else if (active?.place) void remember(this.context, this.picker.value);
    else void this.run(); // an error, or nothing: try again
  }

  private filter(button: FilterButton): void {
    const typed = this.picker.value;
    this.picker.hide();
    this.onFilter(button.filter, typed);
  }

  private end(): void {
    clearTimeout(this.pause);
    this.running.abort();
    this.picker.dispose();
  }
}

function failure(error: unknown): SearchItem {
  return { label: `$(error) ${plain(told(error))}`, detail: "Press Enter to try again" };
}

/** Ask for the values of a filter; undefined if the user cancels. */
async function chosen(
  connection: Connection,
  name: FilterName,
  typed: string,
): Promise<string[] | undefined> {
  const title = `codelode: Search (${name})`;
  if (name === "path") {
    const prompt = "Globs of paths, separated by spaces; a ! before a glob excludes what it matches";
    const value = parsed(typed).filters.paths.join(" ");
    const given = await vscode.window.showInputBox({ title, prompt, value });
    return given?.split(/\s+/).filter(Boolean);
  }
  const gateway = await connection.required();
  const repositories = (await gateway?.get<Status>("/status"))?.repositories ?? [];
  const names = name === "repo" ? repositories.map((one) => one.name) : languages(repositories);
  const filters = parsed(typed).filters;
  const picked = new Set(name === "repo" ? filters.repositories : filters.languages);
  const items = names.map((label) => ({ label, picked: picked.has(label) }));
  const found = await vscode.window.showQuickPick(items, { title, canPickMany: true });
  return found?.map((one) => one.label);
}

function languages(repositories: Status["repositories"]): string[] {
  const health = repositories.flatMap((one) => one.refs).flatMap((ref) => ref.health);
  return [...new Set(health.map((one) => one.language))].filter(Boolean).sort();
}

function history(context: vscode.ExtensionContext): string[] {
  return context.globalState.get<string[]>(HISTORY, []);
}

async function remember(context: vscode.ExtensionContext, query: string): Promise<void> {
  const others = history(context).filter((one) => one !== query);
  await context.globalState.update(HISTORY, [query, ...others].slice(0, HISTORY_LENGTH));
}
