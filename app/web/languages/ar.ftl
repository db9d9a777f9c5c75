### العربية

## On several pages

loading = جارٍ التحميل…
loading-of = جارٍ تحميل { $what }…
cannot-show = تعذّر عرض { $what }: { $problem }
cannot-refresh = تعذّر تحديث { $what }، والمعروض من { $time }: { $problem }
tried-again = تعاد المحاولة تلقائيًا.
try-again = إعادة المحاولة
show-more = عرض المزيد
close = إغلاق
cancel = إلغاء
delete = حذف
copy = نسخ
copied = تم النسخ
copied-sentence = تم النسخ.
not-copied = لم يُنسخ
optional = اختياري
any = أي قيمة
filters = عوامل التصفية
arguments = المعاملات
result = النتيجة
model = النموذج
run = التشغيل
conversation = المحادثة
conversations = المحادثات
account = الحساب
allow = سماح
deny = رفض
question = سؤال
answer = الإجابة
sources = المصادر
files = الملفات
code = الرمز
unknown = غير معروف
without-name = بلا اسم
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } ث

## Frame of the pages, signing in

page-chat = الدردشة
page-approvals = الموافقات
page-billing = الفوترة
page-console = التحكم
page-device = تسجيل دخول Claude Code
pages = الصفحات
skip = الانتقال إلى المحتوى
language = اللغة
page-not-open = هذه الصفحة غير متاحة لدورك
person = الشخص
role = الدور
api-key = مفتاح API
may = الصلاحيات
signed-in-until = الجلسة صالحة حتى
sign-out = تسجيل الخروج
signed-out = تم تسجيل خروجك.
session-ended = انتهت جلستك. سجّل الدخول مجددًا للمتابعة.
sign-in = تسجيل الدخول
signing-in = جارٍ تسجيل الدخول…
sign-in-to = تسجيل الدخول إلى Runtally
sign-in-with = تسجيل الدخول عبر { $issuer }
sign-in-hint = يُستبدل المفتاح بجلسة لا تستطيع البرامج النصية قراءتها، وتنتهي بعد سبعة أيام أو عند تسجيل الخروج.
enter-key = أدخل مفتاح API.
key-not-valid = مفتاح API هذا غير صالح أو أُلغي.
sign-in-failed = فشل تسجيل الدخول. حاول مجددًا.
sign-in-failed-account_suspended = الحساب موقوف.
sign-in-failed-issuer_unavailable = تعذّر الوصول إلى جهة الدخول. حاول لاحقًا.
sign-in-failed-no_role = جهة الدخول تعرفك، لكن ليس لك دور هنا. اطلب دورًا من المسؤول.
sign-in-failed-sign_in_denied = لم تقبل جهة الدخول تسجيل دخولك.
sign-in-failed-sign_in_expired = استغرق تسجيل الدخول وقتًا طويلًا أو بدأ في متصفح آخر. حاول مجددًا.
unreachable-title = تعذّر الوصول إلى الخادم
unreachable-hint = ربما يُعاد تشغيله، أو أن اتصالك منقطع.
unreachable = تعذّر الوصول إلى الخادم.
unreadable = تعذّرت قراءة رد الخادم.

## Notifications

notify-me = أعلمني عندما تكون هذه الصفحة مخفية
notices-refused = المتصفح لا يسمح بذلك: راجع إعداداته لهذه الصفحة.
notices-impossible = هذا المتصفح لا يعرض إشعارات الصفحات.
notices-on = الإشعارات مفعّلة
notices-on-hint = هنا تُعلَم بما ينتظرك عندما تكون هذه الصفحة مخفية.
notice-waits = بانتظار قرارك أو إجابتك.
notice-answer = وصلت الإجابة.

## Signing in a program

device-needs-scope = يتطلب هذا الصلاحية { $scope } وهي ليست لديك.
device-code = الرمز الذي يعرضه Claude Code
device-continue = متابعة
device-allowed = تم تسجيل الدخول. يمكنك إغلاق هذه الصفحة.
device-denied = لم يُسجَّل الدخول.
device-login = تسجيل الدخول
device-words = سيتمكن برنامج من استدعاء النموذج باسم { $who } على نفقة الحساب { $account } لمدة أقصاها 30 يومًا. لا تسمح بذلك إلا إذا بدأت تسجيل الدخول هذا بنفسك الآن وكان الرمز هو الذي تراه هناك.
device-program = البرنامج
device-address = العنوان
device-begun = وقت البدء

## Conversations

new-conversation = محادثة جديدة
new-short = جديدة
search-in-conversations = البحث في المحادثات
search = بحث
archive = أرشفة
archive-shown = الأرشيف
nothing-found = لم يُعثر على شيء.
nothing-archived = لا شيء في الأرشيف.
nothing-listed = ستظهر محادثاتك هنا.
show-earlier = عرض الأقدم
show-earlier-messages = عرض الرسائل السابقة
actions-for = إجراءات { $title }
fork-mark = تفريع
conversation-title = العنوان
group-found = نتائج البحث
group-archived = المؤرشفة
group-pinned = المثبّتة
group-today = اليوم
group-yesterday = أمس
group-week = آخر 7 أيام
group-older = الأقدم
rename = إعادة التسمية
pin = تثبيت
unpin = إلغاء التثبيت
unarchive = إخراج من الأرشيف
share = مشاركة…
export-markdown = تصدير بصيغة Markdown
export-json = تصدير بصيغة JSON
delete-dots = حذف…
delete-title = هل تريد حذف هذه المحادثة؟
delete-words = تُحذف رسائلها ومرفقاتها وملفاتها ونتائج أدواتها نهائيًا، هنا وعلى الخادم. ولن تعرض روابط مشاركتها شيئًا بعد ذلك. تبقى الإيصالات: فيها الرموز والتكاليف ولا شيء مما قيل. وتبقى تفريعاتها أيضًا.
keep = الاحتفاظ بها

## Sharing

share-title = مشاركة «{ $title }»
share-words = كل من لديه الرابط يقرأ ما في هذه المحادثة الآن دون تسجيل دخول، إلى أن تنتهي صلاحية الرابط أو تلغيه. لا يظهر ما يقال لاحقًا ولا التكاليف ولا الملفات.
share-lifetime = مدة صلاحية الرابط
share-days = { $days ->
    [zero] { $days } يوم
    [one] يوم واحد
    [two] يومان
    [few] { $days } أيام
    [many] { $days } يومًا
   *[other] { $days } يوم
}
share-year = سنة
share-tool-calls = إظهار استدعاءات الأدوات أيضًا مع معاملاتها ونتائجها
share-create = إنشاء رابط
share-link = الرابط، ولا يظهر إلا الآن
share-not-copied = لم يُنسخ: المتصفح لا يسمح بذلك. الرابط محدّد.
share-links = الروابط الصالحة
share-made = أُنشئ في { $created }، صالح حتى { $expires }
share-made-with-tools = أُنشئ في { $created }، صالح حتى { $expires }، مع استدعاءات الأدوات
share-revoke = إلغاء
shared-title = محادثة مشتركة
shared-nothing = لا شيء لعرضه
shared-ended = لا يعرض هذا الرابط شيئًا: انتهت صلاحيته أو أُلغي أو أنه غير مكتمل.
shared-dates = كما كانت في { $shared }. الرابط صالح حتى { $expires }.

## A conversation

cost = التكلفة
cost-label = التكلفة { $amount }
to-the-end = إلى النهاية ↓
connection-lost = انقطع الاتصال. جارٍ إعادة المحاولة…
step = الخطوة { $step }
step-of = الخطوة { $step } من { $budget }
read-only = يمكنك قراءة المحادثات دون الكتابة.
you = أنت
you-meanwhile = أنت، في الأثناء
answer-continues = تتمة الإجابة
sent-for-next-step = أُرسلت. يتلقاها الوكيل في خطوته التالية.
thinking-open = يفكّر…
thinking-done = التفكير
more-files = و{ $count } غيرها
note-compacted = لُخّصت الرسائل السابقة للنموذج.
note-budget = نفدت ميزانية هذا التشغيل، وهو ينتظر أن يرفعها شخص ما.
note-resumed = فُقد الخادم، ويستأنف خادم آخر التشغيل.
warning-client_tools_ignored = لا تُعرض على النموذج أدوات العميل هذه: { $names }
warning-tools_left_out = لا يستطيع النموذج استخدام هذه الأدوات بسبب أوصافها أو مخططاتها: { $names }
warning-attachments_left_out = لا يحصل النموذج على كل مرفقات المحادثة: لا يقبل المزيد، أو رفض أحدها.
warning-attachment_refused = مرفقات الرسالة التي رفضها مزوّد النموذج، بأرقامها: { $names }
warning-run_stopped = رُفض استدعاء { $names }، وبذلك ينتهي التشغيل: { $message }
warning-files_not_kept = هناك ملفات لا تبقى في هذه المحادثة أو فُقدت: انتهت مدتها، أو هي كثيرة أو كبيرة جدًا، أو تعذّر حفظها. { $names }
warning-messages_not_delivered = انتهى التشغيل قبل أن تصل رسالتك إلى الوكيل. أرسلها مرة أخرى.
announced-answer = الإجابة: { $text }
more-characters = الأحرف المتبقية: { $size }
download-text = تنزيل النص كاملًا
image-of = صورة: { $name }

activity-stopping = جارٍ الإيقاف…
activity-next = في الانتظار: التالي في الدور
activity-queued = في الانتظار: رقم { $position } في الدور
activity-decision = بانتظار قرارك
activity-answer = بانتظار إجابتك
activity-tool = يستخدم { $tool }
activity-compacting = يلخّص الرسائل السابقة
activity-thinking = يفكّر
activity-retrying = لم يُجب مزوّد النموذج. سيُسأل مرة أخرى.
activity-retrying-in = لم يُجب مزوّد النموذج. تبدأ إعادة المحاولة { $attempt } بعد { $seconds } ث.
activity-waiting = ينتظر ردًا أو رسالة
activity-working = يعمل
activity-starting = يبدأ

## What an agent can do

no-graphs = لا توجد مخططات على هذا الخادم.
it-can = يستطيع:
suggestions = اقتراحات
can-read = قراءة الملفات
can-write = كتابة الملفات
can-edit = تعديل الملفات
can-find = إيجاد الملفات
can-search-files = البحث في الملفات
can-run-commands = تنفيذ الأوامر
can-search-web = البحث في الويب
can-read-web = قراءة صفحات الويب
can-share-work = توزيع العمل
can-ask = سؤالك

## Writing a message

message = الرسالة
message-placeholder = اكتب رسالة
message-placeholder-running = أرسل رسالة إلى الوكيل أثناء عمله
composer-hint = للإرسال Enter، ولسطر جديد Shift+Enter
key-new-line = بدء سطر جديد
keys = المفاتيح
context-title = المستخدم من السياق { $share }: { $used } من { $window } رمز
send = إرسال
stop = إيقاف
stop-at-once = إيقاف فوري
forecast = عادةً { $cost }، { $time }
forecast-title = 95 من 100: { $cost } و{ $time } على الأكثر؛ استنادًا إلى { $count ->
    [zero] { $count } تشغيل سابق
    [one] تشغيل سابق واحد
    [two] تشغيلين سابقين
    [few] { $count } تشغيلات سابقة
    [many] { $count } تشغيلًا سابقًا
   *[other] { $count } تشغيل سابق
}
graph = المخطط
own-model = نموذج الوكيل ({ $model })
effort = الجهد
own = اختيار الوكيل
attach-files = إرفاق ملفات
files-to-attach = ملفات للإرفاق
attached-files = الملفات المرفقة
attachments = المرفقات
reading-file = جارٍ قراءة { $name }
remove-file = إزالة { $name }
file-unreadable = تعذّرت قراءته.
file-empty = فارغ.
files-too-large = يجوز أن يبلغ مجموع ملفات الرسالة الواحدة 22 MiB.
file-refused = مرفوض: { $problem }.

## An answer

answer-again = الإجابة مجددًا
details = التفاصيل
fork-from-here = التفريع من هنا
versions = النسخ
previous-version = النسخة السابقة
next-version = النسخة التالية
copy-answer = نسخ الإجابة
good-answer = إجابة جيدة
bad-answer = إجابة سيئة
what-was-good = ما الجيد فيها؟
what-was-wrong = ما الخطأ فيها؟
note-optional = اختياري
save-note = حفظ الملاحظة
edit-and-send = تعديل وإعادة إرسال
your-message = رسالتك
send-again = إعادة الإرسال
edit-hint = تستمر المحادثة من هنا، ويبقى ما تلاها نسخةً أخرى.
copy-csv = نسخ بصيغة CSV
copy-code = نسخ هذا الكود
code-text = نص
wrap = لفّ
wrap-lines = لفّ الأسطر الطويلة
diagram-of = مخطط: { $words }
diagram-source = المصدر
diagram-source-of = عرض المصدر لهذا المخطط
diagram-large = تكبير
diagram-large-of = تكبير هذا المخطط
diagram-unreadable = يبقى هذا المخطط كودًا: فيه ما لا يمكن رسمه هنا.
diagram-too-large = يبقى هذا المخطط كودًا: إنه كبير جدًا.
diagram-failed = يبقى هذا المخطط كودًا: تعذر رسمه.
details-of-answer = تفاصيل هذه الإجابة
time = المدة
model-calls = استدعاءات النموذج
input-tokens = رموز الإدخال
cache-reads = المقروء من الذاكرة المؤقتة
cache-writes = المكتوب في الذاكرة المؤقتة
output-tokens = رموز الإخراج
context = السياق
context-of = { $used } من { $window } رمز

## Files

files-of-conversation = ملفات هذه المحادثة
the-files = الملفات
the-changes = التغييرات
no-files-yet = لا تحتفظ بملفات بعد.
no-files-now = لا تحتفظ بملفات الآن.
download-all = تنزيل الكل
download = تنزيل
too-many-files = كانت الملفات أكثر مما يجوز الاحتفاظ به.
compared-with = قورنت التغييرات بالدور السابق.
change-created = أُنشئ
change-changed = عُدّل
change-deleted = حُذف
change = التغيير
content = المحتوى
file-too-large = أكبر من أن يُعرض.
file-no-text = ليس نصًا.

## Tool calls

waits-not-yours = بانتظار قرار ليس من صلاحيتك.
args-changed = غيّر شخص المعاملات.
result-hidden = نتيجته مرئية للنموذج فقط.
show-what-it-did = عرض ما فعله
decide-about = اتخاذ قرار بشأن { $tool }
wants-to = يريد الوكيل تنفيذ «{ $tool }».
waits-for-you = وهو ينتظر قرارك.
arguments-json = المعاملات بصيغة JSON
not-json = المعاملات ليست كائن JSON صالحًا.
the-arguments = المعاملات
deny-reason = سبب الرفض، للوكيل (اختياري)
allow-conversation = سماح في هذه المحادثة
change-arguments = تغيير المعاملات
as-json = بصيغة JSON
change-as-json = يمكن تغييره بصيغة JSON
denied-at = من دون قرار يُرفض في { $time }.
field-problem = { $field }: { $problem }.
state-failed = فشل
state-done = تم
state-left = لم يكتمل
state-waits = بانتظارك
state-runs = قيد التنفيذ
state-denied = مرفوض
state-expired = مرفوض: لا قرار في الوقت المحدد
subagent = وكيل فرعي
subagent-of = وكيل فرعي { $type }
not-stored = غير محفوظ، أو لم يُحفظ بعد.
show-output = عرض المخرجات
show-model-result = عرض ما تلقاه النموذج
output = المخرجات
output-exit = المخرجات، رمز الخروج { $code }
model-result = ما تلقاه النموذج
nothing = لا شيء.
tool-failed = فشل.
tool-failed-unknown_tool = لا توجد أداة كهذه.
tool-failed-policy_denied = لم يكن مسموحًا.
tool-failed-invalid_args = استدعاها النموذج بمعاملات غير صالحة.
tool-failed-timeout = استغرقت وقتًا طويلًا.
tool-failed-too_large = نتيجتها كبيرة جدًا.
tool-failed-tool_server_unavailable = تعذّر الوصول إلى خادمها.

## Questions

agent-asks = يسأل الوكيل:
server-asks = يسأل خادم الأدوات { $server }. النصوص منه:
question-answered = تمت الإجابة.
question-declined = رُفضت الإجابة.
question-expired = لم يُجب في الوقت المحدد.
question-run_stopped = انتهى التشغيل قبل ورود إجابة.
answer-not-yours = بانتظار إجابة لا يجوز لمفتاح API لديك تقديمها.
the-answer = الإجابة
to-answer = إجابة
decline = الامتناع عن الإجابة
another-answer = إجابة أخرى
label-optional = { $label } (اختياري)

## Approvals

approvals-title = ما ينتظر إجابة
approvals-lack-scope = ينقص مفتاح API هذا الصلاحية { $scope } التي تعرض ما ينتظر.
kind = النوع
kind-all = الكل
kinds-approval = الموافقات
kinds-question = الأسئلة
kinds-client_tool = أدوات العميل
kinds-budget = الميزانيات
kind-approval = موافقة
kind-question = سؤال
kind-client_tool = أداة العميل
kind-budget = ميزانية
kind-of-tool = { $kind }: { $tool }
waiting-approvals = { $count ->
    [zero] { $count } موافقة
    [one] موافقة واحدة
    [two] موافقتان
    [few] { $count } موافقات
    [many] { $count } موافقة
   *[other] { $count } موافقة
}
waiting-questions = { $count ->
    [zero] { $count } سؤال
    [one] سؤال واحد
    [two] سؤالان
    [few] { $count } أسئلة
    [many] { $count } سؤالًا
   *[other] { $count } سؤال
}
waiting-client-tools = { $count ->
    [zero] { $count } أداة عميل
    [one] أداة عميل واحدة
    [two] أداتا عميل
    [few] { $count } أدوات عميل
    [many] { $count } أداة عميل
   *[other] { $count } أداة عميل
}
waiting-budgets = { $count ->
    [zero] { $count } ميزانية
    [one] ميزانية واحدة
    [two] ميزانيتان
    [few] { $count } ميزانيات
    [many] { $count } ميزانية
   *[other] { $count } ميزانية
}
something-waits = ثمة ما ينتظر إجابة
nothing-waits = لا شيء ينتظر
waits-since = { $graph }، منذ { $time }
newest-waiting = هذه أحدث { $count }. اختر مخططًا أو تشغيلًا أو محادثة لرؤية غيرها.
client-tool-waits = بانتظار البرنامج الذي جلب الأداة.
decision-not-allowed = بانتظار قرار لا يجوز لمفتاح API لديك اتخاذه.
run-ends = سينتهي التشغيل.
limit-raised = رُفع الحد.
said-allowed = سُمح: { $tool }.
said-denied = رُفض: { $tool }.
raise-budget = رفع الميزانية
budget-reached = بلغ التشغيل ميزانيته.
budget-spent = أنفق { $spent } ويجوز له إنفاق { $limit }.
new-limit = الحد الجديد للتشغيل، بالدولار
raise-limit = رفع الحد
end-run = إنهاء التشغيل

## A chat in a site

agent-not-available = هذا الوكيل غير متاح هنا.
part-of-sites = هذه الصفحة جزء من مواقع أخرى.

## Why a run did not succeed

run-failed = لم ينجح التشغيل.
run-failed-timeout-max_turns = بلغ حد الخطوات. اطلب منه المتابعة.
run-failed-rate_limit-budget = استنفد ميزانيته. اطلب أقل في كل مرة.
run-failed-timeout = تجاوز المدة المسموحة. اطلب أقل في كل مرة.
run-failed-aborted = أُوقف.
run-failed-rate_limit = مزوّد النموذج مثقل. حاول مجددًا بعد قليل.
run-failed-insufficient_credits = لم يبقَ رصيد في الحساب. يمكن للمشغّل منح المزيد.
run-failed-budget_reached = استُنفدت إحدى ميزانيات الحساب. يمكن للمشغّل رفعها.
run-failed-provider_unavailable = تعذّر الوصول إلى مزوّد النموذج، أو أنه يرفض طلبات هذا الخادم. حاول مجددًا بعد قليل.
run-failed-provider_refused = يرفض مزوّد النموذج استدعاءات هذا الخادم. على مشغّله التصرف.
run-failed-agent_unavailable = تعطّل برنامج الوكيل على هذا الخادم. حاول مجددًا بعد قليل.
run-failed-refused = يرفض النموذج الإجابة عن هذا.
run-failed-length = الإجابة أطول مما يجوز لرسالة النموذج. اطلبها على أجزاء.
run-failed-context = المحادثة أطول مما يستطيع النموذج قراءته. ابدأ محادثة جديدة.
run-failed-tool_server_unavailable = تعذّر الوصول إلى خادم أدوات يحتاجه الوكيل. حاول مجددًا بعد قليل.
run-failed-database_unavailable = تعذّر الوصول إلى مساحة تخزين الخادم. حاول مجددًا بعد قليل.
run-failed-invalid_request = رفض المزوّد هذا الطلب. ربما كان الطلب أو المحادثة أطول من اللازم. اختصر الرسالة أو ابدأ محادثة جديدة.
run-failed-not_found = لا يوجد مورد يحتاجه التشغيل.
run-failed-internal = حدث خطأ داخلي في الخادم. حاول مجددًا بعد قليل.

## Why a request failed

request-failed-unreachable = تعذّر الوصول إلى الخادم. تحقق من اتصالك وحاول مجددًا.
request-failed-forbidden = لا يجوز لك فعل هذا.
request-failed-no_token = لم يسجّل هذا الموقع دخولك. سجّل الدخول هناك أو أعد تحميل الصفحة.
request-failed-token_expired = انتهت صلاحية تسجيل دخولك. أعد تحميل الصفحة.
request-failed-token_refused = تسجيل الدخول من هذا الموقع غير مقبول هنا.
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = عدد كبير من عمليات التشغيل ينتظر. حاول مجددًا بعد قليل.
request-failed-session_busy = لم ينتهِ تشغيل في هذه المحادثة بعد. أوقفه أولًا.
request-failed-session_of_other_executor = تتبع هذه المحادثة منفّذًا آخر. اختر أحد مخططاته.
request-failed-session_not_found = لا توجد محادثة كهذه، أو أنها حُذفت.
request-failed-run_not_found = لا يوجد تشغيل كهذا.
request-failed-graph_not_found = لم يعد هذا المخطط موجودًا. اختر غيره.
request-failed-messages_not_stored = لم تعد الرسالة محفوظة فلا يمكن الإجابة عنها مجددًا. اكتبها من جديد.
request-failed-too_many_branches = بلغت هذه المحادثة أقصى عدد من النسخ. تابع إحداها أو فرّعها.
request-failed-run_deleted = حُذف ما قالته هذه الإجابة.
request-failed-nothing_to_fork = لا رسائل حتى هذه النقطة يمكن نسخها.
request-failed-permission_decided = سبق البتّ في هذا.
request-failed-question_answered = سبقت الإجابة عن هذا أو انتهى الوقت.
request-failed-run_ended = انتهى التشغيل بالفعل.
request-failed-shutting_down = يُعاد تشغيل الخادم. حاول مجددًا بعد قليل.
request-failed-payload_too_large = هذه الرسالة طويلة جدًا.
