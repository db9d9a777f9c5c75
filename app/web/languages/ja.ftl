### 日本語

## On several pages

loading = 読み込んでいます…
loading-of = { $what }を読み込んでいます…
cannot-show = { $what }を表示できません: { $problem }
cannot-refresh = { $what }を更新できません。{ $time } 時点の内容を表示しています: { $problem }
tried-again = 自動的に再試行します。
try-again = 再試行
show-more = さらに表示
close = 閉じる
cancel = キャンセル
delete = 削除
copy = コピー
copied = コピーしました
copied-sentence = コピーしました。
not-copied = コピーできませんでした
optional = 任意
any = すべて
filters = 絞り込み
arguments = 引数
result = 結果
model = モデル
run = 実行
conversation = 会話
conversations = 会話
account = アカウント
allow = 許可
deny = 拒否
question = 質問
answer = 回答
sources = 出典
files = ファイル
code = コード
unknown = 不明
without-name = 名前なし
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } 秒

## Frame of the pages, signing in

page-chat = チャット
page-approvals = 承認
page-billing = 請求
page-console = コンソール
page-device = Claude Code のサインイン
pages = ページ
skip = 本文へ移動
language = 言語
page-not-open = あなたのロールではこのページを開けません
person = ユーザー
role = ロール
api-key = API キー
may = 権限
signed-in-until = サインインの期限
sign-out = サインアウト
signed-out = サインアウトしました。
session-ended = セッションが終了しました。続けるには再度サインインしてください。
sign-in = サインイン
signing-in = サインインしています…
sign-in-to = Runtally にサインイン
sign-in-with = { $issuer } でサインイン
sign-in-hint = キーは、スクリプトから読めないセッションに交換されます。セッションは 7 日後、またはサインアウト時に終了します。
enter-key = API キーを入力してください。
key-not-valid = この API キーは無効か、取り消されています。
sign-in-failed = サインインに失敗しました。もう一度お試しください。
sign-in-failed-account_suspended = アカウントは停止されています。
sign-in-failed-issuer_unavailable = 認証サービスに接続できません。後でもう一度お試しください。
sign-in-failed-no_role = 認証サービスには登録されていますが、ここでのロールがありません。管理者に依頼してください。
sign-in-failed-sign_in_denied = 認証サービスがサインインを許可しませんでした。
sign-in-failed-sign_in_expired = サインインに時間がかかりすぎたか、別のブラウザーで始められました。もう一度お試しください。
unreachable-title = サーバーに接続できません
unreachable-hint = 再起動中か、接続が切れている可能性があります。
unreachable = サーバーに接続できません。
unreadable = サーバーの応答を読み取れませんでした。

## Notifications

notify-me = このページが隠れている間に通知する
notices-refused = ブラウザーが許可していません。このページの設定をご確認ください。
notices-impossible = このブラウザーはページの通知を表示しません。
notices-on = 通知はオンです
notices-on-hint = このページが隠れている間に待っているものをお知らせします。
notice-waits = 判断または回答を待っています。
notice-answer = 回答が届きました。

## Signing in a program

device-needs-scope = これには { $scope } の権限が必要ですが、あなたにはありません。
device-code = Claude Code に表示されているコード
device-continue = 続ける
device-allowed = サインインしました。このページを閉じてかまいません。
device-denied = サインインしませんでした。
device-login = サインイン
device-words = プログラムが { $who } としてモデルを呼び出せるようになります。費用はアカウント { $account } の負担で、期間は最長 30 日です。このサインインをたった今ご自身で始め、コードがそこに表示されているものと同じ場合にのみ許可してください。
device-program = プログラム
device-address = アドレス
device-begun = 開始

## Conversations

new-conversation = 新しい会話
new-short = 新規
search-in-conversations = 会話を検索
search = 検索
archive = アーカイブする
archive-shown = アーカイブ
nothing-found = 見つかりませんでした。
nothing-archived = アーカイブはありません。
nothing-listed = ここに会話が表示されます。
show-earlier = 以前の会話を表示
show-earlier-messages = 以前のメッセージを表示
actions-for = { $title } の操作
fork-mark = 分岐
conversation-title = タイトル
group-found = 検索結果
group-archived = アーカイブ済み
group-pinned = ピン留め
group-today = 今日
group-yesterday = 昨日
group-week = 過去 7 日間
group-older = それ以前
rename = 名前を変更
pin = ピン留めする
unpin = ピン留めを外す
unarchive = アーカイブから戻す
share = 共有…
export-markdown = Markdown で書き出す
export-json = JSON で書き出す
delete-dots = 削除…
delete-title = この会話を削除しますか?
delete-words = メッセージ、添付、ファイル、ツールの結果は、ここでもサーバーでも完全に削除されます。共有リンクには何も表示されなくなります。領収記録は残りますが、トークン数と費用だけで、会話の内容は含みません。分岐した会話も残ります。
keep = 残す

## Sharing

share-title = 「{ $title }」を共有
share-words = リンクの期限が切れるか取り消されるまで、リンクを知っている人は誰でも、サインインせずにこの会話の現在の内容を読めます。今後の発言、費用、ファイルは表示されません。
share-lifetime = リンクの有効期間
share-days = { $days ->
   *[other] { $days } 日
}
share-year = 1 年
share-tool-calls = ツールの呼び出しも引数と結果とともに表示する
share-create = リンクを作成
share-link = リンク(表示されるのは今だけです)
share-not-copied = コピーできませんでした。ブラウザーが許可していません。リンクは選択されています。
share-links = 有効なリンク
share-made = { $created } に作成、{ $expires } まで有効
share-made-with-tools = { $created } に作成、{ $expires } まで有効、ツールの呼び出しを含む
share-revoke = 取り消す
shared-title = 共有された会話
shared-nothing = 表示するものがありません
shared-ended = このリンクには何も表示されません。期限切れか、取り消されたか、リンクが不完全です。
shared-dates = { $shared } 時点の内容です。リンクは { $expires } まで有効です。

## A conversation

cost = 費用
cost-label = 費用 { $amount }
to-the-end = 最後へ移動 ↓
connection-lost = 接続が切れました。再接続しています…
step = ステップ { $step }
step-of = ステップ { $step }/{ $budget }
read-only = 会話は読めますが、書き込めません。
you = あなた
you-meanwhile = その間のあなた
answer-continues = 回答の続き
sent-for-next-step = 送信しました。エージェントは次のステップで受け取ります。
thinking-open = 考えています…
thinking-done = 思考の過程
more-files = 他 { $count } 件
note-compacted = 以前のメッセージはモデルのために要約されました。
note-budget = この実行の予算を使い切りました。増額されるまで待機します。
note-resumed = サーバーが失われました。別のサーバーが実行を再開します。
warning-client_tools_ignored = クライアントの次のツールはモデルに提供されません: { $names }
warning-tools_left_out = 次のツールは説明またはスキーマのためモデルで使えません: { $names }
warning-attachments_left_out = モデルに会話の添付ファイルの一部が渡されません。上限に達したか、拒否されたためです。
warning-attachment_refused = モデルの提供元が拒否したメッセージの添付の番号: { $names }
warning-run_stopped = { $names } の呼び出しが拒否されたため、実行は終了します: { $message }
warning-files_not_kept = この会話に残らない、または失われたファイルがあります。期限切れ、数やサイズの超過、または保存の失敗のためです。{ $names }
warning-messages_not_delivered = エージェントがメッセージを受け取る前に実行が終了しました。もう一度送信してください。
announced-answer = 回答: { $text }
more-characters = 残り { $size } 文字
download-text = 全文をダウンロード
image-of = 画像: { $name }

activity-stopping = 停止しています…
activity-next = 待機中: 次の順番です
activity-queued = 待機中: { $position } 番目
activity-decision = 判断を待っています
activity-answer = 回答を待っています
activity-tool = { $tool } を使用中
activity-compacting = 以前のメッセージを要約しています
activity-thinking = 考えています
activity-retrying = モデルの提供元が応答しませんでした。もう一度問い合わせます。
activity-retrying-in = モデルの提供元が応答しませんでした。{ $seconds } 秒後に { $attempt } 回目の再試行をします。
activity-waiting = 回答またはメッセージを待っています
activity-working = 作業しています
activity-starting = 開始しています

## What an agent can do

no-graphs = このサーバーにはグラフがありません。
it-can = できること:
suggestions = 提案
can-read = ファイルを読む
can-write = ファイルを書く
can-edit = ファイルを編集する
can-find = ファイルを探す
can-search-files = ファイルの中を検索する
can-run-commands = コマンドを実行する
can-search-web = ウェブを検索する
can-read-web = ウェブページを読む
can-share-work = 作業を分担する
can-ask = あなたに質問する

## Writing a message

message = メッセージ
message-placeholder = メッセージを入力
message-placeholder-running = 実行中のエージェントにメッセージを送る
composer-hint = Enter で送信、Shift+Enter で改行
key-new-line = 改行する
keys = キー操作
context-title = コンテキストの { $share } を使用中: { $window } トークン中 { $used }
send = 送信
stop = 停止
stop-at-once = すぐに停止
forecast = 通常 { $cost }、{ $time }
forecast-title = 100 回中 95 回は { $cost }、{ $time } 以下。過去の実行 { $count ->
   *[other] { $count } 回による
}
graph = グラフ
own-model = エージェントの既定 ({ $model })
effort = 労力
own = エージェントの既定
attach-files = ファイルを添付
files-to-attach = 添付するファイル
attached-files = 添付したファイル
attachments = 添付
reading-file = { $name } を読み込んでいます
remove-file = { $name } を外す
file-unreadable = 読み取れません。
file-empty = 空です。
files-too-large = 1 件のメッセージのファイルは合計 22 MiB までです。
file-refused = 受け付けられません: { $problem }

## An answer

answer-again = もう一度回答
details = 詳細
fork-from-here = ここから分岐
versions = バージョン
previous-version = 前のバージョン
next-version = 次のバージョン
copy-answer = 回答をコピー
good-answer = 良い回答
bad-answer = 悪い回答
what-was-good = 良かった点は何ですか?
what-was-wrong = 何が問題でしたか?
note-optional = 任意
save-note = メモを保存
edit-and-send = 編集して再送信
your-message = あなたのメッセージ
send-again = 再送信
edit-hint = 会話はここから続きます。元の続きは別のバージョンとして残ります。
copy-csv = CSV としてコピー
copy-code = このコードをコピー
code-text = テキスト
wrap = 折り返す
wrap-lines = 長い行を折り返す
diagram-of = 図: { $words }
diagram-source = ソース
diagram-source-of = この図のソースを表示
diagram-large = 拡大
diagram-large-of = この図を拡大
diagram-unreadable = この図はコードのまま表示します。ここでは描画できない要素があります。
diagram-too-large = この図はコードのまま表示します。大きすぎます。
diagram-failed = この図はコードのまま表示します。描画できませんでした。
details-of-answer = この回答の詳細
time = 時間
model-calls = モデルの呼び出し
input-tokens = 入力トークン
cache-reads = キャッシュから読み取り
cache-writes = キャッシュへ書き込み
output-tokens = 出力トークン
context = コンテキスト
context-of = { $window } トークン中 { $used }

## Files

files-of-conversation = この会話のファイル
the-files = ファイル
the-changes = 変更内容
no-files-yet = まだファイルはありません。
no-files-now = 現在ファイルはありません。
download-all = すべてダウンロード
download = ダウンロード
too-many-files = 保存できる数を超えるファイルがありました。
compared-with = 変更は前回のターンと比較したものです。
change-created = 作成
change-changed = 変更
change-deleted = 削除
change = 変更
content = 内容
file-too-large = 大きすぎて表示できません。
file-no-text = テキストではありません。

## Tool calls

waits-not-yours = 判断を待っていますが、あなたには権限がありません。
args-changed = 人が引数を変更しました。
result-hidden = 結果はモデルだけが見られます。
show-what-it-did = 行ったことを表示
decide-about = { $tool } について判断
wants-to = エージェントが「{ $tool }」を実行しようとしています。
waits-for-you = あなたの判断を待っています。
arguments-json = 引数 (JSON)
not-json = 引数は有効な JSON オブジェクトではありません。
the-arguments = 引数
deny-reason = 拒否の理由、エージェント向け (任意)
allow-conversation = この会話では許可
change-arguments = 引数を変更
as-json = JSON で
change-as-json = JSON で変更できます
denied-at = 判断がなければ { $time } に拒否されます。
field-problem = { $field }: { $problem }
state-failed = 失敗
state-done = 完了
state-left = 未完了
state-waits = 判断待ち
state-runs = 実行中
state-denied = 拒否
state-expired = 拒否: 期限内に判断なし
subagent = サブエージェント
subagent-of = サブエージェント { $type }
not-stored = 保存されていないか、まだ保存されていません。
show-output = 出力を表示
show-model-result = モデルが受け取ったものを表示
output = 出力
output-exit = 出力、終了コード { $code }
model-result = モデルが受け取ったもの
nothing = なし。
tool-failed = 失敗しました。
tool-failed-unknown_tool = そのようなツールはありません。
tool-failed-policy_denied = 許可されていませんでした。
tool-failed-invalid_args = モデルが無効な引数で呼び出しました。
tool-failed-timeout = 時間がかかりすぎました。
tool-failed-too_large = 結果が大きすぎます。
tool-failed-tool_server_unavailable = ツールのサーバーに接続できません。

## Questions

agent-asks = エージェントからの質問:
server-asks = ツールサーバー { $server } からの質問です。文面はサーバーのものです:
question-answered = 回答しました。
question-declined = 回答を辞退しました。
question-expired = 期限内に回答がありませんでした。
question-run_stopped = 回答の前に実行が終了しました。
answer-not-yours = 回答を待っていますが、この API キーでは回答できません。
the-answer = 回答
to-answer = 回答する
decline = 回答しない
another-answer = 別の回答
label-optional = { $label } (任意)

## Approvals

approvals-title = 回答を待っているもの
approvals-lack-scope = この API キーには、待っているものを表示する { $scope } の権限がありません。
kind = 種類
kind-all = すべて
kinds-approval = 承認
kinds-question = 質問
kinds-client_tool = クライアントのツール
kinds-budget = 予算
kind-approval = 承認
kind-question = 質問
kind-client_tool = クライアントのツール
kind-budget = 予算
kind-of-tool = { $kind }: { $tool }
waiting-approvals = { $count ->
   *[other] 承認 { $count } 件
}
waiting-questions = { $count ->
   *[other] 質問 { $count } 件
}
waiting-client-tools = { $count ->
   *[other] クライアントのツール { $count } 件
}
waiting-budgets = { $count ->
   *[other] 予算 { $count } 件
}
something-waits = 回答を待っているものがあります
nothing-waits = 待っているものはありません
waits-since = { $graph }、{ $time } から
newest-waiting = 最新の { $count } 件です。他を見るには、グラフ、実行、または会話を選んでください。
client-tool-waits = ツールを提供したプログラムを待っています。
decision-not-allowed = 判断を待っていますが、この API キーでは判断できません。
run-ends = 実行は終了します。
limit-raised = 上限を引き上げました。
said-allowed = 許可しました: { $tool }
said-denied = 拒否しました: { $tool }
raise-budget = 予算を引き上げる
budget-reached = 実行が予算に達しました。
budget-spent = { $limit } のうち { $spent } を使いました。
new-limit = 実行の新しい上限 (ドル)
raise-limit = 上限を引き上げる
end-run = 実行を終了

## A chat in a site

agent-not-available = このエージェントはここでは利用できません。
part-of-sites = このページは他のサイトの一部です。

## Why a run did not succeed

run-failed = 実行は成功しませんでした。
run-failed-timeout-max_turns = ステップの上限に達しました。続けるように頼んでください。
run-failed-rate_limit-budget = 予算を使い切りました。一度に頼む量を減らしてください。
run-failed-timeout = 制限時間を超えました。一度に頼む量を減らしてください。
run-failed-aborted = 停止しました。
run-failed-rate_limit = モデルの提供元が混雑しています。しばらくしてからもう一度お試しください。
run-failed-insufficient_credits = アカウントのクレジットが残っていません。運用者が付与できます。
run-failed-budget_reached = アカウントの予算を使い切りました。運用者が引き上げられます。
run-failed-provider_unavailable = モデルの提供元に接続できないか、このサーバーの要求が拒否されています。しばらくしてからもう一度お試しください。
run-failed-provider_refused = モデルの提供元がこのサーバーの呼び出しを拒否しています。運用者の対応が必要です。
run-failed-agent_unavailable = このサーバーでエージェントのプログラムが失敗しました。しばらくしてからもう一度お試しください。
run-failed-refused = モデルはこれへの回答を拒否しました。
run-failed-length = 回答がモデルのメッセージの上限より長くなりました。分けて頼んでください。
run-failed-context = 会話がモデルの読める長さを超えています。新しい会話を始めてください。
run-failed-tool_server_unavailable = エージェントに必要なツールサーバーに接続できません。しばらくしてからもう一度お試しください。
run-failed-database_unavailable = サーバーのストレージに接続できません。しばらくしてからもう一度お試しください。
run-failed-invalid_request = 提供元がこの要求を拒否しました。要求または会話が長すぎる可能性があります。メッセージを短くするか、新しい会話を始めてください。
run-failed-not_found = 実行に必要なリソースが存在しません。
run-failed-internal = サーバーで内部エラーが発生しました。しばらくしてからもう一度お試しください。

## Why a request failed

request-failed-unreachable = サーバーに接続できません。接続を確認して、もう一度お試しください。
request-failed-forbidden = この操作は許可されていません。
request-failed-no_token = このサイトでサインインしていません。サイトでサインインするか、ページを再読み込みしてください。
request-failed-token_expired = サインインの期限が切れました。ページを再読み込みしてください。
request-failed-token_refused = このサイトのサインインはここでは受け付けられません。
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = 待機中の実行が多すぎます。しばらくしてからもう一度お試しください。
request-failed-session_busy = この会話の実行がまだ終わっていません。先に停止してください。
request-failed-session_of_other_executor = この会話は別の実行方式のものです。そのグラフのいずれかを選んでください。
request-failed-session_not_found = その会話は存在しないか、削除されました。
request-failed-run_not_found = その実行は存在しません。
request-failed-graph_not_found = このグラフはもう存在しません。別のものを選んでください。
request-failed-messages_not_stored = メッセージはもう保存されていないため、再度回答できません。もう一度入力してください。
request-failed-too_many_branches = この会話のバージョン数は上限に達しています。いずれかを続けるか、分岐してください。
request-failed-run_deleted = この回答の内容は削除されました。
request-failed-nothing_to_fork = ここまでにコピーできるメッセージがありません。
request-failed-permission_decided = すでに判断されています。
request-failed-question_answered = すでに回答されたか、時間切れです。
request-failed-run_ended = 実行はすでに終了しています。
request-failed-shutting_down = サーバーを再起動しています。しばらくしてからもう一度お試しください。
request-failed-payload_too_large = このメッセージは長すぎます。
