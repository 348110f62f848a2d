/** The status bar item, which says whether codelode can be used here. */

import * as vscode from "vscode";
import { Repository, Status, told } from "./api";
import { Connection } from "./connection";
import { clones } from "./workspaces";

/** Interval between reads of the status while the window has the focus. */
const EVERY_MS = 10_000;
const ACTIVE = ["queued", "pulling", "indexing"];

interface Shown {
  text: string;
  tooltip: string;
  command: string;
  isWarning?: boolean;
}

/** Show the state in the status bar, and keep it and the list of repositories up to date. */
export function watch(connection: Connection): vscode.Disposable {
  const bar = vscode.window.createStatusBarItem("codelode.status", vscode.StatusBarAlignment.Left);
  bar.name = "codelode";
  let latest = 0;
  const look = async () => {
    const number = ++latest;
    const found = await state(connection);
    if (number === latest) apply(bar, found);
  };
  const timer = setInterval(() => vscode.window.state.focused && void look(), EVERY_MS);
  void look();
  bar.show();
  return vscode.Disposable.from(
    bar,
    connection.onDidChange(look),
    vscode.window.onDidChangeWindowState(({ focused }) => focused && void look()),
    vscode.workspace.onDidChangeWorkspaceFolders(look),
    { dispose: () => clearInterval(timer) },
  );
}

async function state(connection: Connection): Promise<Shown> {
  try {
    const gateway = await connection.gateway();
    if (!gateway) return unconnected();
    const status = await gateway.get<Status>("/status");
    connection.repositories = status.repositories;
    return described(status, gateway.server, await isMissing(status.repositories));
  } catch (error) {
    return {
      text: "$(error) codelode: error",
      tooltip: told(error),
      command: "codelode.connect",
      isWarning: true,
    };
  }
}

function unconnected(): Shown {
  const tooltip = "Choose a gateway";
  return { text: "$(plug) codelode: not connected", tooltip, command: "codelode.connect" };
}

function described(status: Status, server: string, isUnindexed: boolean): Shown {
  const command = "codelode.search";
  const about = `codelode ${status.version} at ${server}, ${status.chunks} chunks`;
  const away = status.servers.filter((one) => one.problem);
  const problems = [...away.map((one) => `${one.role}: ${one.problem}`), ...status.problems];
  if (problems.length) {
    const tooltip = problems.join("\n");
    return { text: "$(warning) codelode: degraded", tooltip, command, isWarning: true };
  }
  const runs = status.runs.filter((run) => ACTIVE.includes(run.state));
  if (runs.length) {
    const [done, total] = [sum(runs.map((run) => run.done)), sum(runs.map((run) => run.total))];
    return { text: `$(sync~spin) codelode: indexing ${done}/${total}`, tooltip: about, command };
  }
  if (isUnindexed) {
    const tooltip = `${about}\nThis folder is not indexed; run: codelode index FOLDER`;
    return { text: "$(circle-slash) codelode: not indexed", tooltip, command };
  }
  return { text: "$(search) codelode: connected", tooltip: about, command };
}

/** Return whether nothing is indexed, or none of the open folders is. */
async function isMissing(repositories: readonly Repository[]): Promise<boolean> {
  if (!repositories.length) return true;
  const isOpen = Boolean(vscode.workspace.workspaceFolders?.length);
  return isOpen && (await clones(repositories)).length === 0;
}

function apply(bar: vscode.StatusBarItem, { text, tooltip, command, isWarning }: Shown): void {
  const warning = new vscode.ThemeColor("statusBarItem.warningBackground");
  Object.assign(bar, { text, tooltip, command });
  bar.backgroundColor = isWarning ? warning : undefined;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}
