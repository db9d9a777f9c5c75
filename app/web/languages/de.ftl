### Deutsch

## On several pages

loading = Wird geladen …
loading-of = { $what }: wird geladen …
cannot-show = { $what }: kann nicht angezeigt werden. { $problem }
cannot-refresh = { $what } kann nicht aktualisiert werden, gezeigt wird der Stand von { $time }: { $problem }
tried-again = Es wird von selbst wieder versucht.
try-again = Erneut versuchen
show-more = Mehr anzeigen
close = Schließen
cancel = Abbrechen
delete = Löschen
copy = Kopieren
copied = Kopiert
copied-sentence = Kopiert.
not-copied = Nicht kopiert
optional = optional
any = beliebig
filters = Filter
arguments = Argumente
result = Ergebnis
model = Modell
run = Lauf
conversation = Unterhaltung
conversations = Unterhaltungen
account = Konto
allow = Erlauben
deny = Ablehnen
question = Frage
answer = Antwort
sources = Quellen
files = Dateien
code = Code
unknown = unbekannt
without-name = ohne Namen
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } s

## Frame of the pages, signing in

page-chat = Chat
page-approvals = Freigaben
page-billing = Abrechnung
page-console = Konsole
page-device = Claude Code anmelden
pages = Seiten
skip = Zum Inhalt
language = Sprache
page-not-open = Diese Seite steht Ihrer Rolle nicht offen
person = Person
role = Rolle
api-key = API-Schlüssel
may = Darf
signed-in-until = Angemeldet bis
sign-out = Abmelden
signed-out = Sie sind abgemeldet.
session-ended = Ihre Sitzung ist beendet. Melden Sie sich erneut an.
sign-in = Anmelden
signing-in = Anmeldung läuft …
sign-in-to = Bei Runtally anmelden
sign-in-with = Mit { $issuer } anmelden
sign-in-hint = Der Schlüssel wird gegen eine Sitzung getauscht, die Skripte nicht lesen können. Sie endet nach sieben Tagen oder wenn Sie sich abmelden.
enter-key = Geben Sie einen API-Schlüssel ein.
key-not-valid = Dieser API-Schlüssel ist ungültig oder wurde widerrufen.
sign-in-failed = Die Anmeldung ist fehlgeschlagen. Versuchen Sie es erneut.
sign-in-failed-account_suspended = Das Konto ist gesperrt.
sign-in-failed-issuer_unavailable = Der Anmeldedienst ist nicht erreichbar. Versuchen Sie es später erneut.
sign-in-failed-no_role = Der Anmeldedienst kennt Sie, aber Sie haben hier keine Rolle. Wenden Sie sich an die Verwaltung.
sign-in-failed-sign_in_denied = Der Anmeldedienst hat Sie nicht angemeldet.
sign-in-failed-sign_in_expired = Die Anmeldung hat zu lange gedauert oder in einem anderen Browser begonnen. Versuchen Sie es erneut.
unreachable-title = Der Server ist nicht erreichbar
unreachable-hint = Vielleicht startet er neu, oder Ihre Verbindung ist unterbrochen.
unreachable = Der Server ist nicht erreichbar.
unreadable = Die Antwort des Servers war nicht lesbar.

## Notifications

notify-me = Benachrichtigen, wenn diese Seite im Hintergrund ist
notices-refused = Der Browser erlaubt es nicht: siehe seine Einstellungen für diese Seite.
notices-impossible = Dieser Browser zeigt für Webseiten keine an.
notices-on = Benachrichtigungen sind an
notices-on-hint = Hier erfahren Sie, was auf Sie wartet, während diese Seite im Hintergrund ist.
notice-waits = Ihre Entscheidung oder Antwort wird erwartet.
notice-answer = Die Antwort ist da.

## Signing in a program

device-needs-scope = Dafür ist die Berechtigung { $scope } nötig, die Sie nicht haben.
device-code = Der Code, den Claude Code anzeigt
device-continue = Weiter
device-allowed = Das Programm ist angemeldet. Sie können diese Seite schließen.
device-denied = Das Programm wurde nicht angemeldet.
device-login = Anmeldung
device-words = Ein Programm darf das Modell für { $who } aufrufen, auf Kosten des Kontos { $account }, höchstens 30 Tage lang. Erlauben Sie es nur, wenn Sie diese Anmeldung soeben selbst begonnen haben und der Code derselbe ist, den Sie dort sehen.
device-program = Programm
device-address = Adresse
device-begun = Begonnen

## Conversations

new-conversation = Neue Unterhaltung
new-short = Neu
search-in-conversations = In Unterhaltungen suchen
search = Suchen
archive = Archivieren
archive-shown = Archiv
nothing-found = Nichts gefunden.
nothing-archived = Nichts archiviert.
nothing-listed = Hier erscheinen Ihre Unterhaltungen.
show-earlier = Frühere anzeigen
show-earlier-messages = Frühere Nachrichten anzeigen
actions-for = Aktionen für { $title }
fork-mark = Abzweigung
conversation-title = Titel
group-found = Gefunden
group-archived = Archiviert
group-pinned = Angeheftet
group-today = Heute
group-yesterday = Gestern
group-week = Letzte 7 Tage
group-older = Älter
rename = Umbenennen
pin = Anheften
unpin = Loslösen
unarchive = Aus dem Archiv holen
share = Teilen …
export-markdown = Als Markdown exportieren
export-json = Als JSON exportieren
delete-dots = Löschen …
delete-title = Diese Unterhaltung löschen?
delete-words = Ihre Nachrichten, Anhänge, Dateien und Werkzeugergebnisse werden endgültig gelöscht, hier und auf dem Server. Links, über die sie geteilt ist, zeigen nichts mehr. Belege bleiben: Sie enthalten Token und Kosten, aber nichts vom Gesagten. Auch Abzweigungen bleiben.
keep = Behalten

## Sharing

share-title = „{ $title }“ teilen
share-words = Wer den Link hat, liest ohne Anmeldung, was diese Unterhaltung jetzt enthält, bis der Link abläuft oder Sie ihn widerrufen. Späteres, Kosten und Dateien werden nicht gezeigt.
share-lifetime = Der Link gilt
share-days = { $days ->
    [one] einen Tag
   *[other] { $days } Tage
}
share-year = ein Jahr
share-tool-calls = Auch Werkzeugaufrufe zeigen, mit Argumenten und Ergebnissen
share-create = Link erstellen
share-link = Der Link, der nur jetzt gezeigt wird
share-not-copied = Nicht kopiert: Der Browser erlaubt es nicht. Der Link ist markiert.
share-links = Gültige Links
share-made = Erstellt { $created }, gültig bis { $expires }
share-made-with-tools = Erstellt { $created }, gültig bis { $expires }, mit Werkzeugaufrufen
share-revoke = Widerrufen
shared-title = Geteilte Unterhaltung
shared-nothing = Nichts zu sehen
shared-ended = Dieser Link zeigt nichts: Er ist abgelaufen, wurde widerrufen oder ist unvollständig.
shared-dates = Stand vom { $shared }. Der Link gilt bis { $expires }.

## A conversation

cost = Kosten
cost-label = Kosten { $amount }
to-the-end = Zum Ende ↓
connection-lost = Die Verbindung ist unterbrochen. Neuer Versuch …
step = Schritt { $step }
step-of = Schritt { $step } von { $budget }
read-only = Sie dürfen Unterhaltungen lesen, aber nicht schreiben.
you = Sie
you-meanwhile = Sie, währenddessen
answer-continues = Fortsetzung der Antwort
sent-for-next-step = Gesendet. Der Agent erhält es bei seinem nächsten Schritt.
thinking-open = Denkt nach …
thinking-done = Überlegungen
more-files = und { $count } weitere
note-compacted = Frühere Nachrichten wurden für das Modell zusammengefasst.
note-budget = Das Budget dieses Laufs ist aufgebraucht. Er wartet, bis es jemand erhöht.
note-resumed = Der Server ist ausgefallen. Ein anderer setzt den Lauf fort.
warning-client_tools_ignored = Diese Werkzeuge des Clients werden dem Modell nicht angeboten: { $names }
warning-tools_left_out = Diese Werkzeuge kann das Modell wegen ihrer Beschreibungen oder Schemas nicht verwenden: { $names }
warning-attachments_left_out = Das Modell erhält nicht alle Anhänge der Unterhaltung: mehr nimmt es nicht an, oder es hat einen abgelehnt.
warning-attachment_refused = Anhänge der Nachricht, die der Anbieter des Modells abgelehnt hat, nach Nummer: { $names }
warning-run_stopped = Der Aufruf von { $names } wurde abgelehnt, und damit endet der Lauf: { $message }
warning-files_not_kept = Dateien bleiben nicht in dieser Unterhaltung oder fehlen: Sie sind abgelaufen, zu viele oder zu groß, oder konnten nicht gespeichert werden. { $names }
warning-messages_not_delivered = Der Lauf endete, bevor der Agent Ihre Nachricht erhielt. Senden Sie sie noch einmal.
announced-answer = Antwort: { $text }
more-characters = noch { $size } Zeichen
download-text = Ganzen Text herunterladen
image-of = Bild: { $name }

activity-stopping = Wird angehalten …
activity-next = Wartet: als Nächster an der Reihe
activity-queued = Wartet: Platz { $position } in der Reihe
activity-decision = Wartet auf Ihre Entscheidung
activity-answer = Wartet auf Ihre Antwort
activity-tool = Verwendet { $tool }
activity-compacting = Fasst frühere Nachrichten zusammen
activity-thinking = Denkt nach
activity-retrying = Der Anbieter des Modells hat nicht geantwortet. Er wird wieder gefragt.
activity-retrying-in = Der Anbieter des Modells hat nicht geantwortet. Wiederholung { $attempt } beginnt in { $seconds } s.
activity-waiting = Wartet auf eine Antwort oder Nachricht
activity-working = Arbeitet
activity-starting = Startet

## What an agent can do

no-graphs = Dieser Server hat keine Graphen.
it-can = Er kann:
suggestions = Vorschläge
can-read = Dateien lesen
can-write = Dateien schreiben
can-edit = Dateien bearbeiten
can-find = Dateien finden
can-search-files = Dateien durchsuchen
can-run-commands = Befehle ausführen
can-search-web = im Web suchen
can-read-web = Webseiten lesen
can-share-work = die Arbeit aufteilen
can-ask = Sie fragen

## Writing a message

message = Nachricht
message-placeholder = Nachricht schreiben
message-placeholder-running = Nachricht an den laufenden Agenten senden
composer-hint = Eingabe sendet, Umschalt+Eingabe: neue Zeile
key-new-line = Neue Zeile beginnen
keys = Tasten
context-title = { $share } des Kontexts sind belegt: { $used } von { $window } Token
send = Senden
stop = Anhalten
stop-at-once = Sofort anhalten
forecast = meist { $cost }, { $time }
forecast-title = 95 von 100: höchstens { $cost }, { $time }; aus { $count ->
    [one] einem früheren Lauf
   *[other] { $count } früheren Läufen
}
graph = Graph
own-model = Das des Agenten ({ $model })
effort = Aufwand
own = Der des Agenten
attach-files = Dateien anhängen
files-to-attach = Anzuhängende Dateien
attached-files = Angehängte Dateien
attachments = Anhänge
reading-file = { $name } wird gelesen
remove-file = { $name } entfernen
file-unreadable = Nicht lesbar.
file-empty = Leer.
files-too-large = Die Dateien einer Nachricht dürfen zusammen 22 MiB groß sein.
file-refused = Abgelehnt: { $problem }.

## An answer

answer-again = Neu beantworten
details = Einzelheiten
fork-from-here = Ab hier abzweigen
versions = Versionen
previous-version = Vorige Version
next-version = Nächste Version
copy-answer = Antwort kopieren
good-answer = Gute Antwort
bad-answer = Schlechte Antwort
what-was-good = Was war gut?
what-was-wrong = Was war falsch?
note-optional = Freiwillig
save-note = Notiz speichern
edit-and-send = Bearbeiten und neu senden
your-message = Ihre Nachricht
send-again = Neu senden
edit-hint = Die Unterhaltung geht von hier aus weiter; was folgte, bleibt als andere Version.
copy-csv = Als CSV kopieren
copy-code = Diesen Code kopieren
code-text = Text
wrap = Umbrechen
wrap-lines = Lange Zeilen umbrechen
diagram-of = Diagramm: { $words }
diagram-source = Quelltext
diagram-source-of = Den Quelltext dieses Diagramms zeigen
diagram-large = Vergrößern
diagram-large-of = Dieses Diagramm vergrößern
diagram-unreadable = Dieses Diagramm bleibt Code: Es enthält etwas, das hier nicht gezeichnet werden kann.
diagram-too-large = Dieses Diagramm bleibt Code: Es ist zu groß.
diagram-failed = Dieses Diagramm bleibt Code: Es konnte nicht gezeichnet werden.
details-of-answer = Einzelheiten dieser Antwort
time = Dauer
model-calls = Modellaufrufe
input-tokens = Eingabe-Token
cache-reads = Aus dem Cache gelesen
cache-writes = In den Cache geschrieben
output-tokens = Ausgabe-Token
context = Kontext
context-of = { $used } von { $window } Token

## Files

files-of-conversation = Dateien dieser Unterhaltung
the-files = Dateien
the-changes = Änderungen
no-files-yet = Noch keine Dateien.
no-files-now = Derzeit keine Dateien.
download-all = Alle herunterladen
download = Herunterladen
too-many-files = Es waren mehr Dateien, als aufbewahrt werden dürfen.
compared-with = Änderungen sind mit der vorigen Runde verglichen.
change-created = angelegt
change-changed = geändert
change-deleted = gelöscht
change = Änderung
content = Inhalt
file-too-large = Zu groß, um angezeigt zu werden.
file-no-text = Kein Text.

## Tool calls

waits-not-yours = Hier wird eine Entscheidung erwartet, die Sie nicht treffen dürfen.
args-changed = Eine Person hat die Argumente geändert.
result-hidden = Nur das Modell sieht das Ergebnis.
show-what-it-did = Zeigen, was er getan hat
decide-about = Über { $tool } entscheiden
wants-to = Der Agent möchte „{ $tool }“ ausführen.
waits-for-you = Er wartet auf Ihre Entscheidung.
arguments-json = Argumente als JSON
not-json = Die Argumente sind kein gültiges JSON-Objekt.
the-arguments = Die Argumente
deny-reason = Grund einer Ablehnung, für den Agenten (optional)
allow-conversation = In dieser Unterhaltung erlauben
change-arguments = Argumente ändern
as-json = Als JSON
change-as-json = kann als JSON geändert werden
denied-at = Ohne Entscheidung wird um { $time } abgelehnt.
field-problem = { $field }: { $problem }.
state-failed = Fehlgeschlagen
state-done = Fertig
state-left = Nicht beendet
state-waits = Wartet auf Sie
state-runs = Läuft
state-denied = Abgelehnt
state-expired = Abgelehnt: keine Entscheidung in der Frist
subagent = Unteragent
subagent-of = Unteragent { $type }
not-stored = Nicht oder noch nicht gespeichert.
show-output = Ausgabe zeigen
show-model-result = Zeigen, was das Modell erhielt
output = Ausgabe
output-exit = Ausgabe, Exit-Code { $code }
model-result = Was das Modell erhielt
nothing = Nichts.
tool-failed = Fehlgeschlagen.
tool-failed-unknown_tool = Dieses Werkzeug gibt es nicht.
tool-failed-policy_denied = Nicht erlaubt.
tool-failed-invalid_args = Das Modell hat es mit ungültigen Argumenten aufgerufen.
tool-failed-timeout = Es hat zu lange gedauert.
tool-failed-too_large = Das Ergebnis ist zu groß.
tool-failed-tool_server_unavailable = Der Server des Werkzeugs ist nicht erreichbar.

## Questions

agent-asks = Der Agent fragt:
server-asks = Der Werkzeugserver { $server } fragt. Die Texte stammen von ihm:
question-answered = Beantwortet.
question-declined = Antwort verweigert.
question-expired = Nicht rechtzeitig beantwortet.
question-run_stopped = Der Lauf endete vor einer Antwort.
answer-not-yours = Hier wird eine Antwort erwartet, die Ihr API-Schlüssel nicht geben darf.
the-answer = Die Antwort
to-answer = Antworten
decline = Nicht antworten
another-answer = Andere Antwort
label-optional = { $label } (optional)

## Approvals

approvals-title = Was auf eine Antwort wartet
approvals-lack-scope = Diesem API-Schlüssel fehlt die Berechtigung { $scope }, die zeigt, was wartet.
kind = Art
kind-all = Alles
kinds-approval = Freigaben
kinds-question = Fragen
kinds-client_tool = Client-Werkzeuge
kinds-budget = Budgets
kind-approval = Freigabe
kind-question = Frage
kind-client_tool = Client-Werkzeug
kind-budget = Budget
kind-of-tool = { $kind }: { $tool }
waiting-approvals = { $count ->
    [one] { $count } Freigabe
   *[other] { $count } Freigaben
}
waiting-questions = { $count ->
    [one] { $count } Frage
   *[other] { $count } Fragen
}
waiting-client-tools = { $count ->
    [one] { $count } Client-Werkzeug
   *[other] { $count } Client-Werkzeuge
}
waiting-budgets = { $count ->
    [one] { $count } Budget
   *[other] { $count } Budgets
}
something-waits = Etwas wartet auf eine Antwort
nothing-waits = Nichts wartet
waits-since = { $graph }, seit { $time }
newest-waiting = Dies sind die neuesten { $count }. Wählen Sie einen Graphen, einen Lauf oder eine Unterhaltung, um andere zu sehen.
client-tool-waits = Es wartet auf das Programm, das das Werkzeug mitgebracht hat.
decision-not-allowed = Hier wird eine Entscheidung erwartet, die Ihr API-Schlüssel nicht treffen darf.
run-ends = Der Lauf endet.
limit-raised = Die Grenze ist erhöht.
said-allowed = Erlaubt: { $tool }.
said-denied = Abgelehnt: { $tool }.
raise-budget = Budget erhöhen
budget-reached = Der Lauf hat sein Budget erreicht.
budget-spent = Er hat { $spent } ausgegeben und darf { $limit } ausgeben.
new-limit = Neue Grenze des Laufs, in Dollar
raise-limit = Grenze erhöhen
end-run = Lauf beenden

## A chat in a site

agent-not-available = Dieser Agent ist hier nicht verfügbar.
part-of-sites = Diese Seite ist ein Teil anderer Seiten.

## Why a run did not succeed

run-failed = Der Lauf war nicht erfolgreich.
run-failed-timeout-max_turns = Die Höchstzahl der Schritte ist erreicht. Bitten Sie ihn, weiterzumachen.
run-failed-rate_limit-budget = Das Budget ist aufgebraucht. Verlangen Sie weniger auf einmal.
run-failed-timeout = Das Zeitlimit ist überschritten. Verlangen Sie weniger auf einmal.
run-failed-aborted = Angehalten.
run-failed-rate_limit = Der Anbieter des Modells ist überlastet. Versuchen Sie es gleich noch einmal.
run-failed-insufficient_credits = Das Konto hat kein Guthaben mehr. Der Betreiber kann welches gewähren.
run-failed-budget_reached = Ein Budget des Kontos ist aufgebraucht. Der Betreiber kann es erhöhen.
run-failed-provider_unavailable = Der Anbieter des Modells ist nicht erreichbar oder weist die Anfragen dieses Servers zurück. Versuchen Sie es gleich noch einmal.
run-failed-provider_refused = Der Anbieter des Modells verweigert die Aufrufe dieses Servers. Dessen Betreiber muss handeln.
run-failed-agent_unavailable = Das Programm des Agenten ist auf diesem Server ausgefallen. Versuchen Sie es gleich noch einmal.
run-failed-refused = Das Modell lehnt es ab, darauf zu antworten.
run-failed-length = Die Antwort ist länger, als eine Nachricht des Modells sein darf. Fragen Sie in Teilen danach.
run-failed-context = Die Unterhaltung ist länger, als das Modell lesen kann. Beginnen Sie eine neue.
run-failed-tool_server_unavailable = Ein Werkzeugserver, den der Agent braucht, ist nicht erreichbar. Versuchen Sie es gleich noch einmal.
run-failed-database_unavailable = Der Speicher des Servers ist nicht erreichbar. Versuchen Sie es gleich noch einmal.
run-failed-invalid_request = Der Anbieter hat diese Anfrage zurückgewiesen. Sie oder die Unterhaltung ist vielleicht zu lang. Kürzen Sie die Nachricht, oder beginnen Sie eine neue Unterhaltung.
run-failed-not_found = Etwas, das der Lauf braucht, gibt es nicht.
run-failed-internal = Auf dem Server ist ein interner Fehler aufgetreten. Versuchen Sie es gleich noch einmal.

## Why a request failed

request-failed-unreachable = Der Server ist nicht erreichbar. Prüfen Sie Ihre Verbindung und versuchen Sie es erneut.
request-failed-forbidden = Das dürfen Sie nicht.
request-failed-no_token = Diese Website hat Sie nicht angemeldet. Melden Sie sich dort an, oder laden Sie die Seite neu.
request-failed-token_expired = Ihre Anmeldung ist abgelaufen. Laden Sie die Seite neu.
request-failed-token_refused = Die Anmeldung dieser Website wird hier nicht angenommen.
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = Es warten zu viele Läufe. Versuchen Sie es gleich noch einmal.
request-failed-session_busy = Ein Lauf dieser Unterhaltung ist noch nicht beendet. Halten Sie ihn zuerst an.
request-failed-session_of_other_executor = Diese Unterhaltung gehört zu einer anderen Ausführung. Wählen Sie einen von deren Graphen.
request-failed-session_not_found = Diese Unterhaltung gibt es nicht, oder sie wurde gelöscht.
request-failed-run_not_found = Diesen Lauf gibt es nicht.
request-failed-graph_not_found = Diesen Graphen gibt es nicht mehr. Wählen Sie einen anderen.
request-failed-messages_not_stored = Die Nachricht ist nicht mehr gespeichert und kann nicht neu beantwortet werden. Schreiben Sie sie noch einmal.
request-failed-too_many_branches = Diese Unterhaltung hat so viele Versionen, wie sie haben darf. Setzen Sie eine davon fort, oder zweigen Sie ab.
request-failed-run_deleted = Der Inhalt dieser Antwort wurde gelöscht.
request-failed-nothing_to_fork = Bis hierher gibt es keine Nachrichten, die kopiert werden könnten.
request-failed-permission_decided = Darüber wurde schon entschieden.
request-failed-question_answered = Das wurde schon beantwortet, oder die Zeit war um.
request-failed-run_ended = Der Lauf ist schon beendet.
request-failed-shutting_down = Der Server wird neu gestartet. Versuchen Sie es gleich noch einmal.
request-failed-payload_too_large = Diese Nachricht ist zu lang.
