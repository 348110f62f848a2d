/** The chosen gateway. Its address is in the editor's state, its token in secret storage. */

import * as vscode from "vscode";
import { Gateway, GatewayError, Repository, Status, told } from "./api";
import { localGateway } from "./local";

const SERVER = "server";
const TOKEN = "token";
/** Stands for the address of the cluster on this machine, whose port and token may change when it starts. */
const LOCAL = "local";

export class Connection {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  /** The repositories in the gateway's last answer. */
  repositories: readonly Repository[] = [];

  constructor(private readonly context: vscode.ExtensionContext) {}

  get isChosen(): boolean {
    return Boolean(this.context.globalState.get(SERVER));
  }

  /** Return the chosen gateway; undefined if none is chosen. */
  async gateway(): Promise<Gateway | undefined> {
    const server = this.context.globalState.get<string>(SERVER);
    if (!server) return undefined;
    if (server !== LOCAL) return new Gateway(server, (await this.context.secrets.get(TOKEN)) ?? "");
    const found = await localGateway();
    if (found) return found;
    throw new GatewayError('No cluster runs on this machine. Start it with "codelode up".', 0);
  }

  /** Return the chosen gateway; if there is none, ask for one. */
  async required(): Promise<Gateway | undefined> {
    return (await this.gateway()) ?? (await this.connect());
  }

  /** Ask for a gateway and its token, and keep them if the gateway accepts the token. */
  async connect(): Promise<Gateway | undefined> {
    const local = await localGateway();
    const isLocal = local && (await usesLocal(local));
    if (local && isLocal === undefined) return undefined;
    const gateway = isLocal ? local : await asked();
    if (!gateway) return undefined;
    this.repositories = (await gateway.get<Status>("/status")).repositories;
    await this.keep(gateway, isLocal ? LOCAL : gateway.server);
    const count = this.repositories.length;
    void vscode.window.showInformationMessage(
      `Connected to ${gateway.server}: ${count} ${count === 1 ? "repository" : "repositories"}.`,
    );
    return gateway;
  }

  /** Forget the gateway and its token. */
  async disconnect(): Promise<void> {
    await this.context.globalState.update(SERVER, undefined);
    await this.context.secrets.delete(TOKEN);
    this.changed.fire();
  }

  private async keep(gateway: Gateway, server: string): Promise<void> {
    if (server === LOCAL) await this.context.secrets.delete(TOKEN);
    else await this.context.secrets.store(TOKEN, gateway.token);
    await this.context.globalState.update(SERVER, server);
    this.changed.fire();
  }
}

/** Show an error; an error of the connection has a button to choose another gateway. */
export async function report(error: unknown): Promise<void> {
  const isOfConnection = error instanceof GatewayError && [0, 401].includes(error.status);
  const buttons = isOfConnection ? ["Connect"] : [];
  if (await vscode.window.showErrorMessage(told(error), ...buttons)) {
    await vscode.commands.executeCommand("codelode.connect");
  }
}

/** Return whether to use the cluster of this machine; undefined if the user cancels. */
async function usesLocal(local: Gateway): Promise<boolean | undefined> {
  const here = { label: "The cluster of this machine", description: local.server };
  const other = { label: "Another server…" };
  const chosen = await vscode.window.showQuickPick([here, other], { title: "codelode: Connect" });
  return chosen && chosen === here;
}

async function asked(): Promise<Gateway | undefined> {
  const server = await vscode.window.showInputBox({
    title: "codelode: Connect (1/2)",
    prompt: "Address of the gateway's HTTP port",
    placeHolder: "https://search.example.com:50080",
    ignoreFocusOut: true,
    validateInput: (value) => (isAddress(value) ? undefined : "An address starts with http:// or https://"),
  });
  if (!server) return undefined;
  const token = await vscode.window.showInputBox({
    title: "codelode: Connect (2/2)",
    prompt: "API key or token of the gateway; the editor keeps it in its secret storage",
    password: true,
    ignoreFocusOut: true,
  });
  return token === undefined ? undefined : new Gateway(new URL(server.trim()).origin, token.trim());
}

function isAddress(value: string): boolean {
  return /^https?:\/\/[^/]/.test(value.trim()) && URL.canParse(value.trim());
}
