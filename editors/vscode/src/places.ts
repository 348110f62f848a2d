/** Lists of places in code, with a preview of the one that the arrow keys reach. */

import * as vscode from "vscode";
import { Hit } from "./api";
import { report } from "./connection";
import { Documents, Place } from "./documents";

export interface PlaceItem extends vscode.QuickPickItem {
  place?: Place;
}

/** Characters of code that a list must not show: control characters, and marks that change the direction of text. */
const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Return the text as one line that is shown literally; without the escape, `$(name)` is an icon. */
export function plain(text: string): string {
  return text.trim().replace(INVISIBLE, "\ufffd").replace(/\$\(/g, "\\$(");
}

export function item(place: Place, description: string, detail: string): PlaceItem {
  return {
    label: plain(`${place.path}:${place.line}`),
    description: plain(description),
    detail: plain(detail),
    place,
  };
}

export function hitItem(hit: Hit): PlaceItem {
  const line = hit.line || hit.start_line;
  const code = hit.content.split("\n")[line - hit.start_line] ?? "";
  const place = { repository: hit.repository, path: hit.path, line, revision: hit.revision };
  const copies = hit.copies?.length ? `in ${hit.copies.length + 1} repositories` : "";
  return item(place, [hit.symbol, hit.repository, copies].filter(Boolean).join("  ·  "), code);
}

export function note(text: string): PlaceItem {
  return { label: `$(info) ${plain(text)}` };
}

/** Return the items under a heading; an empty list if there are none. */
export function section(heading: string, items: readonly PlaceItem[]): PlaceItem[] {
  const separator = { label: heading, kind: vscode.QuickPickItemKind.Separator };
  return items.length ? [separator, ...items] : [];
}

/** Open the accepted item, and preview the item that the arrow keys reach. */
export function follow(picker: vscode.QuickPick<PlaceItem>, documents: Documents): void {
  let shown: readonly PlaceItem[] | undefined;
  picker.onDidChangeActive(([active]) => {
    if (!active) return;
    // The first of new items becomes active without a key press, so it is not previewed.
    const hasMoved = shown === picker.items;
    shown = picker.items;
    if (hasMoved && active.place) void documents.open(active.place, true).catch(report);
  });
  picker.onDidAccept(() => {
    const place = picker.activeItems[0]?.place;
    if (!place) return;
    picker.hide();
    void documents.open(place, false).catch(report);
  });
}

/** Show the items until one is opened or the user cancels. */
export function show(
  title: string,
  placeholder: string,
  items: readonly PlaceItem[],
  documents: Documents,
): void {
  const picker = vscode.window.createQuickPick<PlaceItem>();
  picker.title = title;
  picker.placeholder = placeholder;
  picker.matchOnDescription = picker.matchOnDetail = true;
  picker.items = items;
  follow(picker, documents);
  picker.onDidHide(() => picker.dispose());
  picker.show();
}
