### Messages of the pages that people use. Variables are in braces; what they are is in the scripts.

## On several pages

loading = Loading…
loading-of = Loading { $what }…
cannot-show = Cannot show { $what }: { $problem }
cannot-refresh = Cannot refresh { $what }, shown as of { $time }: { $problem }
tried-again = It is tried again by itself.
try-again = Try again
show-more = Show more
close = Close
cancel = Cancel
delete = Delete
copy = Copy
copied = Copied
copied-sentence = Copied.
not-copied = Not copied
optional = optional
any = any
filters = Filters
arguments = Arguments
result = Result
model = Model
run = Run
conversation = Conversation
conversations = Conversations
account = Account
allow = Allow
deny = Deny
question = Question
answer = Answer
sources = Sources
files = Files
code = Code
unknown = unknown
without-name = without a name
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } s

## Frame of the pages, signing in

page-chat = Chat
page-approvals = Approvals
page-billing = Billing
page-console = Console
page-device = Sign in Claude Code
pages = Pages
skip = Skip to content
language = Language
page-not-open = This page is not open to your role
person = Person
role = Role
api-key = API key
may = May
signed-in-until = Signed in until
sign-out = Sign out
signed-out = You are signed out.
session-ended = Your session has ended. Sign in again to continue.
sign-in = Sign in
signing-in = Signing in…
sign-in-to = Sign in to Runtally
sign-in-with = Sign in with { $issuer }
sign-in-hint = The key is exchanged for a session that scripts cannot read. It ends after seven days, or when you sign out.
enter-key = Enter an API key.
key-not-valid = This API key is not valid, or it was revoked.
sign-in-failed = The sign-in has failed. Try again.
sign-in-failed-account_suspended = The account is suspended.
sign-in-failed-issuer_unavailable = The issuer cannot be reached. Try again later.
sign-in-failed-no_role = You are known to the issuer, but have no role here. Ask an administrator for one.
sign-in-failed-sign_in_denied = The issuer has not signed you in.
sign-in-failed-sign_in_expired = The sign-in took too long, or began in another browser. Try again.
unreachable-title = The server cannot be reached
unreachable-hint = It may be restarting, or your connection may be down.
unreachable = The server cannot be reached.
unreadable = The server’s response could not be read.

## Notifications

notify-me = Notify me while this page is hidden
notices-refused = The browser does not allow it: see its settings for this page.
notices-impossible = This browser shows none for pages.
notices-on = Notifications are on
notices-on-hint = You are told here what waits for you while this page is hidden.
notice-waits = It waits for your decision or answer.
notice-answer = The answer is there.

## Signing in a program

device-needs-scope = This needs the scope { $scope }, which you do not have.
device-code = The code that Claude Code shows
device-continue = Continue
device-allowed = It is signed in. You can close this page.
device-denied = It was not signed in.
device-login = Login
device-words = A program may call the model for { $who }, at the expense of the account { $account }, for at most 30 days. Allow it only if you have just begun this login yourself, and the code is the one that you see there.
device-program = Program
device-address = Address
device-begun = Begun

## Conversations

new-conversation = New conversation
new-short = New
search-in-conversations = Search in conversations
search = Search
archive = Archive
archive-shown = Archive
nothing-found = Nothing is found.
nothing-archived = Nothing is archived.
nothing-listed = Your conversations will be listed here.
show-earlier = Show earlier ones
show-earlier-messages = Show earlier messages
actions-for = Actions for { $title }
fork-mark = Fork
conversation-title = Title
group-found = Found
group-archived = Archived
group-pinned = Pinned
group-today = Today
group-yesterday = Yesterday
group-week = Previous 7 days
group-older = Older
rename = Rename
pin = Pin
unpin = Unpin
unarchive = Move out of the archive
share = Share…
export-markdown = Export as Markdown
export-json = Export as JSON
delete-dots = Delete…
delete-title = Delete this conversation?
delete-words = Its messages, attachments, files and tool results are deleted permanently, here and on the server. Links by which it is shared show nothing any more. Receipts stay: they have tokens and costs, and nothing that was said. Forks of it stay, too.
keep = Keep it

## Sharing

share-title = Share “{ $title }”
share-words = Anybody who has the link reads what this conversation has now, without signing in, until the link expires or you revoke it. What is said later, costs and files are not shown.
share-lifetime = The link works for
share-days = { $days ->
    [one] One day
   *[other] { $days } days
}
share-year = A year
share-tool-calls = Also show tool calls, with their arguments and results
share-create = Create a link
share-link = The link, which is shown only now
share-not-copied = Not copied: the browser does not allow it. The link is selected.
share-links = Links that work
share-made = Made { $created }, until { $expires }
share-made-with-tools = Made { $created }, until { $expires }, with tool calls
share-revoke = Revoke
shared-title = Shared conversation
shared-nothing = Nothing to show
shared-ended = This link shows nothing: it has expired or was revoked, or it is not complete.
shared-dates = As it was on { $shared }. The link works until { $expires }.

## A conversation

cost = Cost
cost-label = Cost { $amount }
to-the-end = Go to the end ↓
connection-lost = The connection is lost. Trying again…
step = Step { $step }
step-of = Step { $step } of { $budget }
read-only = You may read conversations, but not write.
you = You
you-meanwhile = You, meanwhile
answer-continues = Answer continues
sent-for-next-step = Sent. The agent receives it at its next step.
thinking-open = Thinking…
thinking-done = Reasoning
more-files = and { $count } more
note-compacted = Earlier messages were summarized for the model.
note-budget = The budget of this run is used up. It waits until a person raises it.
note-resumed = The server was lost. Another one resumes the run.
warning-client_tools_ignored = The model is not offered these tools of the client: { $names }
warning-tools_left_out = The model cannot use these tools, because of their descriptions or schemas: { $names }
warning-attachments_left_out = The model does not get all attachments of the conversation: it takes no more, or refused one.
warning-attachment_refused = Attachments of the message that the model’s provider has refused, by number: { $names }
warning-run_stopped = The call of { $names } was denied, which ends the run: { $message }
warning-files_not_kept = Files do not stay in this conversation, or were lost: they have expired, are too many or too large, or could not be stored. { $names }
warning-messages_not_delivered = The run ended before the agent got your message. Send it again.
announced-answer = Answer: { $text }
more-characters = { $size } { $count ->
    [one] character
   *[other] characters
} more
download-text = Download the whole text
image-of = Image: { $name }

activity-stopping = Stopping…
activity-next = Waiting: next in line
activity-queued = Waiting: number { $position } in line
activity-decision = Waiting for you to decide
activity-answer = Waiting for your answer
activity-tool = Using { $tool }
activity-compacting = Summarizing earlier messages
activity-thinking = Thinking
activity-retrying = The model’s provider did not answer. It is asked again.
activity-retrying-in = The model’s provider did not answer. Retry { $attempt } begins in { $seconds } s.
activity-waiting = Waiting for an answer or a message
activity-working = Working
activity-starting = Starting

## What an agent can do

no-graphs = This server has no graphs.
it-can = It can:
suggestions = Suggestions
can-read = read files
can-write = write files
can-edit = edit files
can-find = find files
can-search-files = search in files
can-run-commands = run commands
can-search-web = search the web
can-read-web = read web pages
can-share-work = share the work
can-ask = ask you

## Writing a message

message = Message
message-placeholder = Write a message
message-placeholder-running = Send a message to the running agent
composer-hint = Enter sends, Shift+Enter starts a new line
key-new-line = Start a new line
keys = Keys
context-title = { $share } of the context is used: { $used } of { $window } tokens
send = Send
stop = Stop
stop-at-once = Stop at once
forecast = usually { $cost }, { $time }
forecast-title = 95 of 100: at most { $cost }, { $time }; from { $count ->
    [one] one earlier run
   *[other] { $count } earlier runs
}
graph = Graph
own-model = The agent’s own ({ $model })
effort = Effort
own = The agent’s own
attach-files = Attach files
files-to-attach = Files to attach
attached-files = Attached files
attachments = Attachments
reading-file = Reading { $name }
remove-file = Remove { $name }
file-unreadable = It cannot be read.
file-empty = It is empty.
files-too-large = Files of one message may have 22 MiB together.
file-refused = It { $problem }.

## An answer

answer-again = Answer again
details = Details
fork-from-here = Fork from here
versions = Versions
previous-version = Previous version
next-version = Next version
copy-answer = Copy the answer
good-answer = Good answer
bad-answer = Bad answer
what-was-good = What was good?
what-was-wrong = What was wrong?
note-optional = Optional
save-note = Save the note
edit-and-send = Edit and send again
your-message = Your message
send-again = Send again
edit-hint = The conversation continues from here; what followed stays as another version.
copy-csv = Copy as CSV
copy-code = Copy this code
code-text = text
wrap = Wrap
wrap-lines = Wrap long lines
diagram-of = Diagram: { $words }
diagram-source = Source
diagram-source-of = Show the source of this diagram
diagram-large = Enlarge
diagram-large-of = Enlarge this diagram
diagram-unreadable = This diagram stays code: it has something that cannot be drawn here.
diagram-too-large = This diagram stays code: it is too large.
diagram-failed = This diagram stays code: it could not be drawn.
details-of-answer = Details of this answer
time = Time
model-calls = Model calls
input-tokens = Input tokens
cache-reads = Read from the cache
cache-writes = Written to the cache
output-tokens = Output tokens
context = Context
context-of = { $used } of { $window } tokens

## Files

files-of-conversation = Files of this conversation
the-files = the files
the-changes = what was changed
no-files-yet = It keeps no files yet.
no-files-now = It keeps no files now.
download-all = Download all
download = Download
too-many-files = There were more files than it may keep.
compared-with = What was changed is compared with the turn before.
change-created = created
change-changed = modified
change-deleted = deleted
change = Change
content = Content
file-too-large = It is too large to be shown.
file-no-text = It is not a text.

## Tool calls

waits-not-yours = It waits for a decision, which is not yours to make.
args-changed = A person has changed the arguments.
result-hidden = Its result is visible to the model only.
show-what-it-did = Show what it did
decide-about = Decide about { $tool }
wants-to = The agent wants to { $tool }.
waits-for-you = It waits for you to decide.
arguments-json = Arguments, as JSON
not-json = The arguments are not a valid JSON object.
the-arguments = The arguments
deny-reason = Reason for a denial, for the agent (optional)
allow-conversation = Allow for this conversation
change-arguments = Change the arguments
as-json = As JSON
change-as-json = can be changed as JSON
denied-at = Without a decision it is denied at { $time }.
field-problem = { $field }: { $problem }.
state-failed = Failed
state-done = Done
state-left = Not finished
state-waits = Waits for you
state-runs = Running
state-denied = Denied
state-expired = Denied: no decision in time
subagent = Subagent
subagent-of = Subagent { $type }
not-stored = It is not stored, or not yet.
show-output = Show the output
show-model-result = Show what the model got
output = Output
output-exit = Output, exit code { $code }
model-result = What the model got
nothing = Nothing.
tool-failed = It failed.
tool-failed-unknown_tool = There is no such tool.
tool-failed-policy_denied = It was not allowed.
tool-failed-invalid_args = The model called it with invalid arguments.
tool-failed-timeout = It took too long.
tool-failed-too_large = Its result is too large.
tool-failed-tool_server_unavailable = Its server cannot be reached.

## Questions

agent-asks = The agent asks:
server-asks = The tool server { $server } asks. The texts are its own:
question-answered = Answered.
question-declined = Declined to answer.
question-expired = Not answered in time.
question-run_stopped = The run ended before there was an answer.
answer-not-yours = It waits for an answer, which your API key may not give.
the-answer = The answer
to-answer = Answer
decline = Decline to answer
another-answer = Another answer
label-optional = { $label } (optional)

## Approvals

approvals-title = What waits for an answer
approvals-lack-scope = This API key lacks the scope { $scope }, which shows what waits.
kind = Kind
kind-all = Everything
kinds-approval = Approvals
kinds-question = Questions
kinds-client_tool = Client tools
kinds-budget = Budgets
kind-approval = Approval
kind-question = Question
kind-client_tool = Client tool
kind-budget = Budget
kind-of-tool = { $kind }: { $tool }
waiting-approvals = { $count ->
    [one] { $count } approval
   *[other] { $count } approvals
}
waiting-questions = { $count ->
    [one] { $count } question
   *[other] { $count } questions
}
waiting-client-tools = { $count ->
    [one] { $count } client tool
   *[other] { $count } client tools
}
waiting-budgets = { $count ->
    [one] { $count } budget
   *[other] { $count } budgets
}
something-waits = Something waits for an answer
nothing-waits = Nothing waits
waits-since = { $graph }, since { $time }
newest-waiting = These are the newest { $count }. Choose a graph, a run or a conversation to see others.
client-tool-waits = It waits for the program that has brought the tool.
decision-not-allowed = It waits for a decision, which your API key may not make.
run-ends = The run ends.
limit-raised = The limit is raised.
said-allowed = Allowed: { $tool }.
said-denied = Denied: { $tool }.
raise-budget = Raise the budget
budget-reached = The run has reached its budget.
budget-spent = It has spent { $spent }, and may spend { $limit }.
new-limit = New limit of the run, in dollars
raise-limit = Raise the limit
end-run = End the run

## A chat in a site

agent-not-available = This agent is not available here.
part-of-sites = This page is a part of other sites.

## Why a run did not succeed

run-failed = The run did not succeed.
run-failed-timeout-max_turns = It reached its limit of steps. Ask it to go on.
run-failed-rate_limit-budget = It used up its budget. Ask for less at a time.
run-failed-timeout = It exceeded its time limit. Ask for less at a time.
run-failed-aborted = Stopped.
run-failed-rate_limit = The model’s provider is overloaded. Try again in a moment.
run-failed-insufficient_credits = The account has no credit left. Its operator can grant some.
run-failed-budget_reached = A budget of the account is used up. Its operator can raise it.
run-failed-provider_unavailable = The model’s provider cannot be reached, or it rejects this server’s requests. Try again in a moment.
run-failed-provider_refused = The model’s provider refuses this server’s calls. Its operator must act.
run-failed-agent_unavailable = The agent’s program failed on this server. Try again in a moment.
run-failed-refused = The model refuses to answer this.
run-failed-length = The answer is longer than a message of the model may be. Ask for it in parts.
run-failed-context = The conversation is longer than the model can read. Begin a new one.
run-failed-tool_server_unavailable = A tool server that the agent needs cannot be reached. Try again in a moment.
run-failed-database_unavailable = This server’s storage cannot be reached. Try again in a moment.
run-failed-invalid_request = The provider rejected this request. It or the conversation may be too long. Shorten the message, or begin a new conversation.
run-failed-not_found = A resource that the run needs does not exist.
run-failed-internal = An internal error occurred on the server. Try again in a moment.

## Why a request failed

request-failed-unreachable = The server cannot be reached. Check your connection and try again.
request-failed-forbidden = You are not allowed to do this.
request-failed-no_token = This site has not signed you in. Sign in there, or reload the page.
request-failed-token_expired = Your sign-in has expired. Reload the page.
request-failed-token_refused = The sign-in of this site is not accepted here.
# Only pages that sites embed: the others ask people to sign in.
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = Too many runs are waiting. Try again in a moment.
request-failed-session_busy = A run of this conversation has not ended yet. Stop it first.
request-failed-session_of_other_executor = This conversation belongs to another executor. Choose one of its graphs.
request-failed-session_not_found = There is no such conversation, or it was deleted.
request-failed-run_not_found = There is no such run.
request-failed-graph_not_found = This graph does not exist any more. Choose another.
request-failed-messages_not_stored = The message is not stored any more, so it cannot be answered again. Write it anew.
request-failed-too_many_branches = This conversation has as many versions as it may have. Continue one of them, or fork it.
request-failed-run_deleted = What this answer said was deleted.
request-failed-nothing_to_fork = There are no messages up to this point that could be copied.
request-failed-permission_decided = It was decided already.
request-failed-question_answered = It was answered already, or its time was up.
request-failed-run_ended = The run has ended already.
request-failed-shutting_down = The server is being restarted. Try again in a moment.
request-failed-payload_too_large = This message is too long.
