/** Finds the open folders that are clones of indexed repositories, by the URLs of their remotes. */

import * as vscode from "vscode";
import { Repository } from "./api";

interface Clone {
  root: vscode.Uri;
  repository: Repository;
}

/** Return the open folders that are clones of one of the repositories. */
export async function clones(repositories: readonly Repository[]): Promise<Clone[]> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const found = await Promise.all(folders.map((folder) => cloneAt(folder.uri, repositories)));
  return found.filter((one) => one !== undefined);
}

/** Return the workspace's file for a file of a repository; undefined if the workspace has none. */
export async function localFile(
  repositories: readonly Repository[],
  repository: string,
  path: string,
): Promise<vscode.Uri | undefined> {
  for (const clone of await clones(repositories)) {
    const file = vscode.Uri.joinPath(clone.root, path);
    if (clone.repository.name === repository && (await exists(file))) return file;
  }
  return undefined;
}

/** Return the repository of a workspace file and the path in it; undefined if it is in none. */
export async function indexedFile(
  repositories: readonly Repository[],
  file: vscode.Uri,
): Promise<{ repository: string; path: string } | undefined> {
  for (const { root, repository } of await clones(repositories)) {
    if (!file.path.startsWith(`${root.path}/`)) continue;
    return { repository: repository.name, path: file.path.slice(root.path.length + 1) };
  }
  return undefined;
}

async function cloneAt(
  folder: vscode.Uri,
  repositories: readonly Repository[],
): Promise<Clone | undefined> {
  const root = await gitRoot(folder);
  if (!root) return undefined;
  const urls = new Set([root.path, ...(await remotes(root)).map(normalised)]);
  const repository = repositories.find((one) => urls.has(normalised(one.url)));
  return repository && { root, repository };
}

/** Return the folder, or its nearest parent, that contains `.git`; undefined if there is none. */
async function gitRoot(folder: vscode.Uri): Promise<vscode.Uri | undefined> {
  if (await exists(vscode.Uri.joinPath(folder, ".git"))) return folder;
  const parent = vscode.Uri.joinPath(folder, "..");
  return parent.path === folder.path ? undefined : gitRoot(parent);
}

async function remotes(root: vscode.Uri): Promise<string[]> {
  try {
    const file = vscode.Uri.joinPath(root, ".git", "config");
    const config = new TextDecoder().decode(await vscode.workspace.fs.readFile(file));
    return [...config.matchAll(/^\s*url\s*=\s*(\S+)/gm)].map((match) => match[1] ?? "");
  } catch {
    return []; // a linked work tree, whose .git is a file
  }
}

/** Return `host/acme/app` for `git@host:acme/app.git` and `https://host/acme/app`. */
function normalised(url: string): string {
  return url
    .replace(/^file:\/\//, "")
    .replace(/^\w+:\/\/([^@/]*@)?/, "")
    .replace(/^[^@/]+@/, "")
    .replace(/^([^/:]+):(?!\d+\/)/, "$1/")
    .replace(/\/+$/, "")
    .replace(/\.git$/, "");
}

async function exists(uri: vscode.Uri): Promise<boolean> {
  try {
    await vscode.workspace.fs.stat(uri);
    return true;
  } catch {
    return false;
  }
}
