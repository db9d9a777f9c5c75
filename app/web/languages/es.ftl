### Español

## On several pages

loading = Cargando…
loading-of = Cargando { $what }…
cannot-show = No se puede mostrar { $what }: { $problem }
cannot-refresh = No se puede actualizar { $what }, se muestra lo de { $time }: { $problem }
tried-again = Se vuelve a intentar automáticamente.
try-again = Reintentar
show-more = Mostrar más
close = Cerrar
cancel = Cancelar
delete = Eliminar
copy = Copiar
copied = Copiado
copied-sentence = Copiado.
not-copied = No copiado
optional = opcional
any = cualquiera
filters = Filtros
arguments = Argumentos
result = Resultado
model = Modelo
run = Ejecución
conversation = Conversación
conversations = Conversaciones
account = Cuenta
allow = Permitir
deny = Denegar
question = Pregunta
answer = Respuesta
sources = Fuentes
files = Archivos
code = Código
unknown = desconocida
without-name = sin nombre
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } s

## Frame of the pages, signing in

page-chat = Chat
page-approvals = Aprobaciones
page-billing = Facturación
page-console = Consola
page-device = Iniciar sesión en Claude Code
pages = Páginas
skip = Ir al contenido
language = Idioma
page-not-open = Su rol no tiene acceso a esta página
person = Persona
role = Rol
api-key = Clave de API
may = Permisos
signed-in-until = Sesión abierta hasta
sign-out = Cerrar sesión
signed-out = Ha cerrado la sesión.
session-ended = Su sesión ha terminado. Inicie sesión de nuevo para continuar.
sign-in = Iniciar sesión
signing-in = Iniciando sesión…
sign-in-to = Iniciar sesión en Runtally
sign-in-with = Iniciar sesión con { $issuer }
sign-in-hint = La clave se cambia por una sesión que los scripts no pueden leer. Termina a los siete días o al cerrar la sesión.
enter-key = Introduzca una clave de API.
key-not-valid = Esta clave de API no es válida o se ha revocado.
sign-in-failed = No se pudo iniciar la sesión. Inténtelo de nuevo.
sign-in-failed-account_suspended = La cuenta está suspendida.
sign-in-failed-issuer_unavailable = No se puede acceder al emisor. Inténtelo más tarde.
sign-in-failed-no_role = El emisor le conoce, pero aquí no tiene ningún rol. Pídaselo a la administración.
sign-in-failed-sign_in_denied = El emisor no ha iniciado su sesión.
sign-in-failed-sign_in_expired = El inicio de sesión tardó demasiado o comenzó en otro navegador. Inténtelo de nuevo.
unreachable-title = No se puede acceder al servidor
unreachable-hint = Puede que se esté reiniciando o que su conexión no funcione.
unreachable = No se puede acceder al servidor.
unreadable = No se pudo leer la respuesta del servidor.

## Notifications

notify-me = Avisarme mientras esta página esté oculta
notices-refused = El navegador no lo permite: consulte sus ajustes para esta página.
notices-impossible = Este navegador no muestra avisos de páginas.
notices-on = Los avisos están activados
notices-on-hint = Aquí se le avisa de lo que le espera mientras esta página está oculta.
notice-waits = Espera su decisión o su respuesta.
notice-answer = La respuesta está lista.

## Signing in a program

device-needs-scope = Se necesita el permiso { $scope }, que usted no tiene.
device-code = El código que muestra Claude Code
device-continue = Continuar
device-allowed = La sesión está iniciada. Puede cerrar esta página.
device-denied = No se ha iniciado la sesión.
device-login = Inicio de sesión
device-words = Un programa podrá llamar al modelo en nombre de { $who }, a cargo de la cuenta { $account }, durante 30 días como máximo. Permítalo solo si acaba de empezar este inicio de sesión y el código es el que ve allí.
device-program = Programa
device-address = Dirección
device-begun = Iniciado

## Conversations

new-conversation = Nueva conversación
new-short = Nueva
search-in-conversations = Buscar en las conversaciones
search = Buscar
archive = Archivar
archive-shown = Archivo
nothing-found = No se encontró nada.
nothing-archived = No hay nada archivado.
nothing-listed = Aquí aparecerán sus conversaciones.
show-earlier = Mostrar anteriores
show-earlier-messages = Mostrar mensajes anteriores
actions-for = Acciones para { $title }
fork-mark = Bifurcación
conversation-title = Título
group-found = Encontradas
group-archived = Archivadas
group-pinned = Fijadas
group-today = Hoy
group-yesterday = Ayer
group-week = Últimos 7 días
group-older = Anteriores
rename = Cambiar nombre
pin = Fijar
unpin = Dejar de fijar
unarchive = Sacar del archivo
share = Compartir…
export-markdown = Exportar como Markdown
export-json = Exportar como JSON
delete-dots = Eliminar…
delete-title = ¿Eliminar esta conversación?
delete-words = Sus mensajes, adjuntos, archivos y resultados de herramientas se eliminan definitivamente, aquí y en el servidor. Los enlaces con los que se comparte dejan de mostrar nada. Los recibos permanecen: contienen tokens y costes, pero nada de lo dicho. Sus bifurcaciones también permanecen.
keep = Conservar

## Sharing

share-title = Compartir «{ $title }»
share-words = Cualquiera que tenga el enlace lee lo que esta conversación contiene ahora, sin iniciar sesión, hasta que el enlace caduque o usted lo revoque. No se muestra lo que se diga después, ni costes ni archivos.
share-lifetime = El enlace funciona durante
share-days = { $days ->
    [one] un día
    [many] { $days } de días
   *[other] { $days } días
}
share-year = un año
share-tool-calls = Mostrar también las llamadas a herramientas, con argumentos y resultados
share-create = Crear un enlace
share-link = El enlace, que solo se muestra ahora
share-not-copied = No copiado: el navegador no lo permite. El enlace está seleccionado.
share-links = Enlaces activos
share-made = Creado el { $created }, hasta el { $expires }
share-made-with-tools = Creado el { $created }, hasta el { $expires }, con llamadas a herramientas
share-revoke = Revocar
shared-title = Conversación compartida
shared-nothing = Nada que mostrar
shared-ended = Este enlace no muestra nada: ha caducado, se ha revocado o está incompleto.
shared-dates = Tal como estaba el { $shared }. El enlace funciona hasta el { $expires }.

## A conversation

cost = Coste
cost-label = Coste { $amount }
to-the-end = Ir al final ↓
connection-lost = Se perdió la conexión. Reintentando…
step = Paso { $step }
step-of = Paso { $step } de { $budget }
read-only = Puede leer conversaciones, pero no escribir.
you = Usted
you-meanwhile = Usted, entretanto
answer-continues = La respuesta continúa
sent-for-next-step = Enviado. El agente lo recibe en su siguiente paso.
thinking-open = Pensando…
thinking-done = Razonamiento
more-files = y { $count } más
note-compacted = Los mensajes anteriores se resumieron para el modelo.
note-budget = El presupuesto de esta ejecución se ha agotado. Espera a que una persona lo aumente.
note-resumed = Se perdió el servidor. Otro reanuda la ejecución.
warning-client_tools_ignored = Al modelo no se le ofrecen estas herramientas del cliente: { $names }
warning-tools_left_out = El modelo no puede usar estas herramientas por sus descripciones o esquemas: { $names }
warning-attachments_left_out = El modelo no recibe todos los archivos adjuntos de la conversación: no acepta más, o ha rechazado uno.
warning-attachment_refused = Adjuntos del mensaje que el proveedor del modelo ha rechazado, por número: { $names }
warning-run_stopped = La llamada a { $names } fue denegada, y con ello termina la ejecución: { $message }
warning-files_not_kept = Hay archivos que no se conservan en esta conversación o faltan: han caducado, son demasiados o demasiado grandes, o no se pudieron guardar. { $names }
warning-messages_not_delivered = La ejecución terminó antes de que el agente recibiera su mensaje. Envíelo de nuevo.
announced-answer = Respuesta: { $text }
more-characters = caracteres restantes: { $size }
download-text = Descargar el texto completo
image-of = Imagen: { $name }

activity-stopping = Deteniendo…
activity-next = En espera: es el siguiente
activity-queued = En espera: puesto { $position } de la cola
activity-decision = Espera su decisión
activity-answer = Espera su respuesta
activity-tool = Usando { $tool }
activity-compacting = Resumiendo los mensajes anteriores
activity-thinking = Pensando
activity-retrying = El proveedor del modelo no ha respondido. Se le vuelve a preguntar.
activity-retrying-in = El proveedor del modelo no ha respondido. El reintento { $attempt } empieza en { $seconds } s.
activity-waiting = Espera una respuesta o un mensaje
activity-working = Trabajando
activity-starting = Empezando

## What an agent can do

no-graphs = Este servidor no tiene grafos.
it-can = Puede:
suggestions = Sugerencias
can-read = leer archivos
can-write = escribir archivos
can-edit = editar archivos
can-find = encontrar archivos
can-search-files = buscar en archivos
can-run-commands = ejecutar comandos
can-search-web = buscar en la web
can-read-web = leer páginas web
can-share-work = repartir el trabajo
can-ask = hacerle preguntas

## Writing a message

message = Mensaje
message-placeholder = Escriba un mensaje
message-placeholder-running = Envíe un mensaje al agente en curso
composer-hint = Intro envía, Mayús+Intro empieza una línea nueva
key-new-line = Empezar una línea nueva
keys = Teclas
context-title = Se usa el { $share } del contexto: { $used } de { $window } tokens
send = Enviar
stop = Detener
stop-at-once = Detener ya
forecast = normalmente { $cost }, { $time }
forecast-title = 95 de 100: { $cost } y { $time } como máximo; según { $count ->
    [one] una ejecución anterior
    [many] { $count } de ejecuciones anteriores
   *[other] { $count } ejecuciones anteriores
}
graph = Grafo
own-model = El del agente ({ $model })
effort = Esfuerzo
own = El del agente
attach-files = Adjuntar archivos
files-to-attach = Archivos para adjuntar
attached-files = Archivos adjuntos
attachments = Adjuntos
reading-file = Leyendo { $name }
remove-file = Quitar { $name }
file-unreadable = No se puede leer.
file-empty = Está vacío.
files-too-large = Los archivos de un mensaje pueden ocupar 22 MiB en total.
file-refused = Rechazado: { $problem }.

## An answer

answer-again = Responder de nuevo
details = Detalles
fork-from-here = Bifurcar desde aquí
versions = Versiones
previous-version = Versión anterior
next-version = Versión siguiente
copy-answer = Copiar la respuesta
good-answer = Buena respuesta
bad-answer = Mala respuesta
what-was-good = ¿Qué estuvo bien?
what-was-wrong = ¿Qué estuvo mal?
note-optional = Opcional
save-note = Guardar la nota
edit-and-send = Editar y reenviar
your-message = Su mensaje
send-again = Reenviar
edit-hint = La conversación continúa desde aquí; lo que seguía queda como otra versión.
copy-csv = Copiar como CSV
copy-code = Copiar este código
code-text = texto
wrap = Ajustar
wrap-lines = Ajustar las líneas largas
diagram-of = Diagrama: { $words }
diagram-source = Fuente
diagram-source-of = Mostrar el código fuente de este diagrama
diagram-large = Ampliar
diagram-large-of = Ampliar este diagrama
diagram-unreadable = Este diagrama se queda como código: contiene algo que no se puede dibujar aquí.
diagram-too-large = Este diagrama se queda como código: es demasiado grande.
diagram-failed = Este diagrama se queda como código: no se pudo dibujar.
details-of-answer = Detalles de esta respuesta
time = Tiempo
model-calls = Llamadas al modelo
input-tokens = Tokens de entrada
cache-reads = Leídos de la caché
cache-writes = Escritos en la caché
output-tokens = Tokens de salida
context = Contexto
context-of = { $used } de { $window } tokens

## Files

files-of-conversation = Archivos de esta conversación
the-files = los archivos
the-changes = los cambios
no-files-yet = Aún no guarda archivos.
no-files-now = Ahora no guarda archivos.
download-all = Descargar todo
download = Descargar
too-many-files = Había más archivos de los que puede guardar.
compared-with = Los cambios se comparan con el turno anterior.
change-created = creado
change-changed = modificado
change-deleted = eliminado
change = Cambio
content = Contenido
file-too-large = Es demasiado grande para mostrarlo.
file-no-text = No es un texto.

## Tool calls

waits-not-yours = Espera una decisión que no le corresponde.
args-changed = Una persona ha cambiado los argumentos.
result-hidden = Su resultado solo es visible para el modelo.
show-what-it-did = Mostrar lo que hizo
decide-about = Decidir sobre { $tool }
wants-to = El agente quiere ejecutar «{ $tool }».
waits-for-you = Espera su decisión.
arguments-json = Argumentos, como JSON
not-json = Los argumentos no son un objeto JSON válido.
the-arguments = Los argumentos
deny-reason = Motivo de la denegación, para el agente (opcional)
allow-conversation = Permitir en esta conversación
change-arguments = Cambiar los argumentos
as-json = Como JSON
change-as-json = se puede cambiar como JSON
denied-at = Sin una decisión, se deniega a las { $time }.
field-problem = { $field }: { $problem }.
state-failed = Fallida
state-done = Terminada
state-left = Sin terminar
state-waits = Espera su decisión
state-runs = En curso
state-denied = Denegada
state-expired = Denegada: sin decisión a tiempo
subagent = Subagente
subagent-of = Subagente { $type }
not-stored = No está guardado, o todavía no.
show-output = Mostrar la salida
show-model-result = Mostrar lo que recibió el modelo
output = Salida
output-exit = Salida, código { $code }
model-result = Lo que recibió el modelo
nothing = Nada.
tool-failed = Ha fallado.
tool-failed-unknown_tool = No existe esa herramienta.
tool-failed-policy_denied = No estaba permitido.
tool-failed-invalid_args = El modelo la llamó con argumentos no válidos.
tool-failed-timeout = Tardó demasiado.
tool-failed-too_large = Su resultado es demasiado grande.
tool-failed-tool_server_unavailable = No se puede acceder a su servidor.

## Questions

agent-asks = El agente pregunta:
server-asks = El servidor de herramientas { $server } pregunta. Los textos son suyos:
question-answered = Respondida.
question-declined = No se quiso responder.
question-expired = No se respondió a tiempo.
question-run_stopped = La ejecución terminó antes de que hubiera respuesta.
answer-not-yours = Espera una respuesta que su clave de API no puede dar.
the-answer = La respuesta
to-answer = Responder
decline = No responder
another-answer = Otra respuesta
label-optional = { $label } (opcional)

## Approvals

approvals-title = Lo que espera una respuesta
approvals-lack-scope = A esta clave de API le falta el permiso { $scope }, que muestra lo que espera.
kind = Tipo
kind-all = Todo
kinds-approval = Aprobaciones
kinds-question = Preguntas
kinds-client_tool = Herramientas del cliente
kinds-budget = Presupuestos
kind-approval = Aprobación
kind-question = Pregunta
kind-client_tool = Herramienta del cliente
kind-budget = Presupuesto
kind-of-tool = { $kind }: { $tool }
waiting-approvals = { $count ->
    [one] { $count } aprobación
    [many] { $count } de aprobaciones
   *[other] { $count } aprobaciones
}
waiting-questions = { $count ->
    [one] { $count } pregunta
    [many] { $count } de preguntas
   *[other] { $count } preguntas
}
waiting-client-tools = { $count ->
    [one] { $count } herramienta del cliente
    [many] { $count } de herramientas del cliente
   *[other] { $count } herramientas del cliente
}
waiting-budgets = { $count ->
    [one] { $count } presupuesto
    [many] { $count } de presupuestos
   *[other] { $count } presupuestos
}
something-waits = Algo espera una respuesta
nothing-waits = Nada espera
waits-since = { $graph }, desde { $time }
newest-waiting = Estos son los { $count } más recientes. Elija un grafo, una ejecución o una conversación para ver otros.
client-tool-waits = Espera al programa que ha aportado la herramienta.
decision-not-allowed = Espera una decisión que su clave de API no puede tomar.
run-ends = La ejecución termina.
limit-raised = Se ha aumentado el límite.
said-allowed = Permitido: { $tool }.
said-denied = Denegado: { $tool }.
raise-budget = Aumentar el presupuesto
budget-reached = La ejecución ha alcanzado su presupuesto.
budget-spent = Ha gastado { $spent } y puede gastar { $limit }.
new-limit = Nuevo límite de la ejecución, en dólares
raise-limit = Aumentar el límite
end-run = Terminar la ejecución

## A chat in a site

agent-not-available = Este agente no está disponible aquí.
part-of-sites = Esta página forma parte de otros sitios.

## Why a run did not succeed

run-failed = La ejecución no tuvo éxito.
run-failed-timeout-max_turns = Alcanzó su límite de pasos. Pida que continúe.
run-failed-rate_limit-budget = Agotó su presupuesto. Pida menos de una vez.
run-failed-timeout = Superó su límite de tiempo. Pida menos de una vez.
run-failed-aborted = Detenida.
run-failed-rate_limit = El proveedor del modelo está sobrecargado. Inténtelo de nuevo en un momento.
run-failed-insufficient_credits = La cuenta no tiene crédito. Quien opera el servidor puede concederlo.
run-failed-budget_reached = Un presupuesto de la cuenta se ha agotado. Quien opera el servidor puede aumentarlo.
run-failed-provider_unavailable = No se puede acceder al proveedor del modelo, o rechaza las solicitudes de este servidor. Inténtelo de nuevo en un momento.
run-failed-provider_refused = El proveedor del modelo no acepta las llamadas de este servidor. Debe actuar quien lo opera.
run-failed-agent_unavailable = El programa del agente falló en este servidor. Inténtelo de nuevo en un momento.
run-failed-refused = El modelo se niega a responder a esto.
run-failed-length = La respuesta es más larga de lo que puede ser un mensaje del modelo. Pídala por partes.
run-failed-context = La conversación es más larga de lo que el modelo puede leer. Empiece una nueva.
run-failed-tool_server_unavailable = No se puede acceder a un servidor de herramientas que el agente necesita. Inténtelo de nuevo en un momento.
run-failed-database_unavailable = No se puede acceder al almacenamiento del servidor. Inténtelo de nuevo en un momento.
run-failed-invalid_request = El proveedor rechazó esta solicitud. Puede que ella o la conversación sea demasiado larga. Acorte el mensaje o empiece una conversación nueva.
run-failed-not_found = No existe un recurso que la ejecución necesita.
run-failed-internal = Se produjo un error interno en el servidor. Inténtelo de nuevo en un momento.

## Why a request failed

request-failed-unreachable = No se puede acceder al servidor. Compruebe su conexión e inténtelo de nuevo.
request-failed-forbidden = No tiene permiso para hacer esto.
request-failed-no_token = Este sitio no ha iniciado su sesión. Iníciela allí o recargue la página.
request-failed-token_expired = Su sesión ha caducado. Recargue la página.
request-failed-token_refused = El inicio de sesión de este sitio no se acepta aquí.
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = Hay demasiadas ejecuciones en espera. Inténtelo de nuevo en un momento.
request-failed-session_busy = Una ejecución de esta conversación aún no ha terminado. Deténgala primero.
request-failed-session_of_other_executor = Esta conversación pertenece a otro ejecutor. Elija uno de sus grafos.
request-failed-session_not_found = No existe esta conversación, o se ha eliminado.
request-failed-run_not_found = No existe esta ejecución.
request-failed-graph_not_found = Este grafo ya no existe. Elija otro.
request-failed-messages_not_stored = El mensaje ya no está guardado y no se puede responder de nuevo. Escríbalo otra vez.
request-failed-too_many_branches = Esta conversación tiene todas las versiones que puede tener. Continúe una de ellas o bifúrquela.
request-failed-run_deleted = Lo que decía esta respuesta se ha eliminado.
request-failed-nothing_to_fork = Hasta este punto no hay mensajes que se puedan copiar.
request-failed-permission_decided = Ya se había decidido.
request-failed-question_answered = Ya se había respondido, o se acabó el tiempo.
request-failed-run_ended = La ejecución ya ha terminado.
request-failed-shutting_down = El servidor se está reiniciando. Inténtelo de nuevo en un momento.
request-failed-payload_too_large = Este mensaje es demasiado largo.
