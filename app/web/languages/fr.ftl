### Français

## On several pages

loading = Chargement…
loading-of = Chargement : { $what }…
cannot-show = Impossible d’afficher { $what } : { $problem }
cannot-refresh = Impossible d’actualiser { $what }, état affiché du { $time } : { $problem }
tried-again = Un nouvel essai est fait automatiquement.
try-again = Réessayer
show-more = Afficher plus
close = Fermer
cancel = Annuler
delete = Supprimer
copy = Copier
copied = Copié
copied-sentence = Copié.
not-copied = Non copié
optional = facultatif
any = indifférent
filters = Filtres
arguments = Arguments
result = Résultat
model = Modèle
run = Exécution
conversation = Conversation
conversations = Conversations
account = Compte
allow = Autoriser
deny = Refuser
question = Question
answer = Réponse
sources = Sources
files = Fichiers
code = Code
unknown = inconnue
without-name = sans nom
page-title = { $title } – Runtally
counted-title = ({ $count }) { $title }
seconds = { $count } s

## Frame of the pages, signing in

page-chat = Chat
page-approvals = Approbations
page-billing = Facturation
page-console = Console
page-device = Connecter Claude Code
pages = Pages
skip = Aller au contenu
language = Langue
page-not-open = Cette page n’est pas ouverte à votre rôle
person = Personne
role = Rôle
api-key = Clé d’API
may = Droits
signed-in-until = Connexion jusqu’au
sign-out = Se déconnecter
signed-out = Vous êtes déconnecté.
session-ended = Votre session est terminée. Reconnectez-vous pour continuer.
sign-in = Se connecter
signing-in = Connexion…
sign-in-to = Se connecter à Runtally
sign-in-with = Se connecter avec { $issuer }
sign-in-hint = La clé est échangée contre une session que les scripts ne peuvent pas lire. Elle se termine après sept jours, ou quand vous vous déconnectez.
enter-key = Saisissez une clé d’API.
key-not-valid = Cette clé d’API n’est pas valide ou a été révoquée.
sign-in-failed = La connexion a échoué. Réessayez.
sign-in-failed-account_suspended = Le compte est suspendu.
sign-in-failed-issuer_unavailable = L’émetteur est injoignable. Réessayez plus tard.
sign-in-failed-no_role = L’émetteur vous connaît, mais vous n’avez aucun rôle ici. Demandez-en un à l’administration.
sign-in-failed-sign_in_denied = L’émetteur ne vous a pas connecté.
sign-in-failed-sign_in_expired = La connexion a pris trop de temps, ou a commencé dans un autre navigateur. Réessayez.
unreachable-title = Le serveur est injoignable
unreachable-hint = Il redémarre peut-être, ou votre connexion est coupée.
unreachable = Le serveur est injoignable.
unreadable = La réponse du serveur n’a pas pu être lue.

## Notifications

notify-me = M’avertir quand cette page est masquée
notices-refused = Le navigateur ne l’autorise pas : voyez ses réglages pour cette page.
notices-impossible = Ce navigateur n’en affiche pas pour les pages.
notices-on = Les notifications sont activées
notices-on-hint = Vous êtes averti ici de ce qui vous attend quand cette page est masquée.
notice-waits = Votre décision ou votre réponse est attendue.
notice-answer = La réponse est là.

## Signing in a program

device-needs-scope = Il faut pour cela le droit { $scope }, que vous n’avez pas.
device-code = Le code que Claude Code affiche
device-continue = Continuer
device-allowed = Le programme est connecté. Vous pouvez fermer cette page.
device-denied = Le programme n’a pas été connecté.
device-login = Connexion
device-words = Un programme pourra appeler le modèle pour { $who }, aux frais du compte { $account }, pendant 30 jours au plus. Ne l’autorisez que si vous venez de commencer cette connexion vous-même et que le code est celui que vous y voyez.
device-program = Programme
device-address = Adresse
device-begun = Commencée

## Conversations

new-conversation = Nouvelle conversation
new-short = Nouvelle
search-in-conversations = Rechercher dans les conversations
search = Rechercher
archive = Archiver
archive-shown = Archives
nothing-found = Rien n’a été trouvé.
nothing-archived = Rien n’est archivé.
nothing-listed = Vos conversations apparaîtront ici.
show-earlier = Afficher les précédentes
show-earlier-messages = Afficher les messages précédents
actions-for = Actions pour { $title }
fork-mark = Bifurcation
conversation-title = Titre
group-found = Trouvées
group-archived = Archivées
group-pinned = Épinglées
group-today = Aujourd’hui
group-yesterday = Hier
group-week = 7 derniers jours
group-older = Plus anciennes
rename = Renommer
pin = Épingler
unpin = Détacher
unarchive = Sortir des archives
share = Partager…
export-markdown = Exporter en Markdown
export-json = Exporter en JSON
delete-dots = Supprimer…
delete-title = Supprimer cette conversation ?
delete-words = Ses messages, pièces jointes, fichiers et résultats d’outils sont supprimés définitivement, ici et sur le serveur. Les liens qui la partagent n’affichent plus rien. Les reçus restent : ils contiennent des jetons et des coûts, mais rien de ce qui a été dit. Ses bifurcations restent aussi.
keep = La garder

## Sharing

share-title = Partager « { $title } »
share-words = Toute personne qui a le lien lit, sans se connecter, ce que cette conversation contient maintenant, jusqu’à ce que le lien expire ou que vous le révoquiez. Ce qui sera dit ensuite, les coûts et les fichiers ne sont pas montrés.
share-lifetime = Le lien fonctionne pendant
share-days = { $days ->
    [one] un jour
    [many] { $days } de jours
   *[other] { $days } jours
}
share-year = un an
share-tool-calls = Montrer aussi les appels d’outils, avec leurs arguments et résultats
share-create = Créer un lien
share-link = Le lien, affiché maintenant seulement
share-not-copied = Non copié : le navigateur ne l’autorise pas. Le lien est sélectionné.
share-links = Liens valables
share-made = Créé le { $created }, jusqu’au { $expires }
share-made-with-tools = Créé le { $created }, jusqu’au { $expires }, avec les appels d’outils
share-revoke = Révoquer
shared-title = Conversation partagée
shared-nothing = Rien à afficher
shared-ended = Ce lien n’affiche rien : il a expiré, a été révoqué ou est incomplet.
shared-dates = État du { $shared }. Le lien fonctionne jusqu’au { $expires }.

## A conversation

cost = Coût
cost-label = Coût { $amount }
to-the-end = Aller à la fin ↓
connection-lost = La connexion est perdue. Nouvel essai…
step = Étape { $step }
step-of = Étape { $step } sur { $budget }
read-only = Vous pouvez lire les conversations, mais pas écrire.
you = Vous
you-meanwhile = Vous, entre-temps
answer-continues = Suite de la réponse
sent-for-next-step = Envoyé. L’agent le recevra à sa prochaine étape.
thinking-open = Réflexion…
thinking-done = Raisonnement
more-files = et { $count } de plus
note-compacted = Les messages précédents ont été résumés pour le modèle.
note-budget = Le budget de cette exécution est épuisé. Elle attend qu’une personne l’augmente.
note-resumed = Le serveur a été perdu. Un autre reprend l’exécution.
warning-client_tools_ignored = Ces outils du client ne sont pas proposés au modèle : { $names }
warning-tools_left_out = Le modèle ne peut pas utiliser ces outils, à cause de leurs descriptions ou schémas : { $names }
warning-attachments_left_out = Le modèle ne reçoit pas toutes les pièces jointes de la conversation : il n’en accepte pas plus, ou en a refusé une.
warning-attachment_refused = Pièces jointes du message refusées par le fournisseur du modèle, par numéro : { $names }
warning-run_stopped = L’appel de { $names } a été refusé, ce qui termine l’exécution : { $message }
warning-files_not_kept = Des fichiers ne restent pas dans cette conversation ou manquent : ils ont expiré, sont trop nombreux ou trop volumineux, ou n’ont pas pu être enregistrés. { $names }
warning-messages_not_delivered = L’exécution s’est terminée avant que l’agent reçoive votre message. Envoyez-le à nouveau.
announced-answer = Réponse : { $text }
more-characters = caractères restants : { $size }
download-text = Télécharger le texte entier
image-of = Image : { $name }

activity-stopping = Arrêt en cours…
activity-next = En attente : premier de la file
activity-queued = En attente : { $position } dans la file
activity-decision = Attend votre décision
activity-answer = Attend votre réponse
activity-tool = Utilise { $tool }
activity-compacting = Résume les messages précédents
activity-thinking = Réfléchit
activity-retrying = Le fournisseur du modèle n’a pas répondu. Il est interrogé à nouveau.
activity-retrying-in = Le fournisseur du modèle n’a pas répondu. Le nouvel essai { $attempt } commence dans { $seconds } s.
activity-waiting = Attend une réponse ou un message
activity-working = Travaille
activity-starting = Démarre

## What an agent can do

no-graphs = Ce serveur n’a pas de graphes.
it-can = Il peut :
suggestions = Suggestions
can-read = lire des fichiers
can-write = écrire des fichiers
can-edit = modifier des fichiers
can-find = trouver des fichiers
can-search-files = chercher dans les fichiers
can-run-commands = exécuter des commandes
can-search-web = chercher sur le web
can-read-web = lire des pages web
can-share-work = répartir le travail
can-ask = vous interroger

## Writing a message

message = Message
message-placeholder = Écrivez un message
message-placeholder-running = Envoyez un message à l’agent en cours
composer-hint = Entrée envoie, Maj+Entrée commence une nouvelle ligne
key-new-line = Commencer une nouvelle ligne
keys = Touches
context-title = { $share } du contexte est utilisé : { $used } sur { $window } jetons
send = Envoyer
stop = Arrêter
stop-at-once = Arrêter immédiatement
forecast = d’habitude { $cost }, { $time }
forecast-title = 95 sur 100 : au plus { $cost }, { $time } ; d’après { $count ->
    [one] une exécution précédente
    [many] { $count } d’exécutions précédentes
   *[other] { $count } exécutions précédentes
}
graph = Graphe
own-model = Celui de l’agent ({ $model })
effort = Effort
own = Celui de l’agent
attach-files = Joindre des fichiers
files-to-attach = Fichiers à joindre
attached-files = Fichiers joints
attachments = Pièces jointes
reading-file = Lecture de { $name }
remove-file = Retirer { $name }
file-unreadable = Illisible.
file-empty = Vide.
files-too-large = Les fichiers d’un message peuvent faire 22 Mio ensemble.
file-refused = Refusé : { $problem }.

## An answer

answer-again = Répondre à nouveau
details = Détails
fork-from-here = Bifurquer ici
versions = Versions
previous-version = Version précédente
next-version = Version suivante
copy-answer = Copier la réponse
good-answer = Bonne réponse
bad-answer = Mauvaise réponse
what-was-good = Qu’est-ce qui était bien ?
what-was-wrong = Qu’est-ce qui n’allait pas ?
note-optional = Facultatif
save-note = Enregistrer la note
edit-and-send = Modifier et renvoyer
your-message = Votre message
send-again = Renvoyer
edit-hint = La conversation continue d’ici ; ce qui suivait reste comme autre version.
copy-csv = Copier en CSV
copy-code = Copier ce code
code-text = texte
wrap = Replier
wrap-lines = Replier les longues lignes
diagram-of = Diagramme : { $words }
diagram-source = Source
diagram-source-of = Afficher la source de ce diagramme
diagram-large = Agrandir
diagram-large-of = Agrandir ce diagramme
diagram-unreadable = Ce diagramme reste du code : il contient quelque chose qui ne peut pas être dessiné ici.
diagram-too-large = Ce diagramme reste du code : il est trop grand.
diagram-failed = Ce diagramme reste du code : il n’a pas pu être dessiné.
details-of-answer = Détails de cette réponse
time = Durée
model-calls = Appels du modèle
input-tokens = Jetons d’entrée
cache-reads = Lus dans le cache
cache-writes = Écrits dans le cache
output-tokens = Jetons de sortie
context = Contexte
context-of = { $used } sur { $window } jetons

## Files

files-of-conversation = Fichiers de cette conversation
the-files = les fichiers
the-changes = les modifications
no-files-yet = Elle ne garde pas encore de fichiers.
no-files-now = Elle ne garde pas de fichiers actuellement.
download-all = Tout télécharger
download = Télécharger
too-many-files = Il y avait plus de fichiers qu’elle ne peut en garder.
compared-with = Les modifications sont comparées au tour précédent.
change-created = créé
change-changed = modifié
change-deleted = supprimé
change = Modification
content = Contenu
file-too-large = Trop volumineux pour être affiché.
file-no-text = Ce n’est pas un texte.

## Tool calls

waits-not-yours = Une décision est attendue, qui ne vous revient pas.
args-changed = Une personne a modifié les arguments.
result-hidden = Seul le modèle voit son résultat.
show-what-it-did = Montrer ce qu’il a fait
decide-about = Décider de { $tool }
wants-to = L’agent veut exécuter « { $tool } ».
waits-for-you = Il attend votre décision.
arguments-json = Arguments, en JSON
not-json = Les arguments ne sont pas un objet JSON valide.
the-arguments = Les arguments
deny-reason = Raison d’un refus, pour l’agent (facultatif)
allow-conversation = Autoriser pour cette conversation
change-arguments = Modifier les arguments
as-json = En JSON
change-as-json = modifiable en JSON
denied-at = Sans décision, l’appel est refusé à { $time }.
field-problem = { $field } : { $problem }.
state-failed = Échoué
state-done = Terminé
state-left = Inachevé
state-waits = Vous attend
state-runs = En cours
state-denied = Refusé
state-expired = Refusé : pas de décision à temps
subagent = Sous-agent
subagent-of = Sous-agent { $type }
not-stored = Non enregistré, ou pas encore.
show-output = Afficher la sortie
show-model-result = Afficher ce que le modèle a reçu
output = Sortie
output-exit = Sortie, code { $code }
model-result = Ce que le modèle a reçu
nothing = Rien.
tool-failed = Échec.
tool-failed-unknown_tool = Cet outil n’existe pas.
tool-failed-policy_denied = Ce n’était pas autorisé.
tool-failed-invalid_args = Le modèle l’a appelé avec des arguments invalides.
tool-failed-timeout = Cela a pris trop de temps.
tool-failed-too_large = Son résultat est trop volumineux.
tool-failed-tool_server_unavailable = Son serveur est injoignable.

## Questions

agent-asks = L’agent demande :
server-asks = Le serveur d’outils { $server } demande. Les textes sont les siens :
question-answered = Répondu.
question-declined = Réponse refusée.
question-expired = Pas de réponse à temps.
question-run_stopped = L’exécution s’est terminée avant toute réponse.
answer-not-yours = Une réponse est attendue, que votre clé d’API ne peut pas donner.
the-answer = La réponse
to-answer = Répondre
decline = Ne pas répondre
another-answer = Autre réponse
label-optional = { $label } (facultatif)

## Approvals

approvals-title = Ce qui attend une réponse
approvals-lack-scope = Il manque à cette clé d’API le droit { $scope }, qui montre ce qui attend.
kind = Type
kind-all = Tout
kinds-approval = Approbations
kinds-question = Questions
kinds-client_tool = Outils du client
kinds-budget = Budgets
kind-approval = Approbation
kind-question = Question
kind-client_tool = Outil du client
kind-budget = Budget
kind-of-tool = { $kind } : { $tool }
waiting-approvals = { $count ->
    [one] { $count } approbation
    [many] { $count } d’approbations
   *[other] { $count } approbations
}
waiting-questions = { $count ->
    [one] { $count } question
    [many] { $count } de questions
   *[other] { $count } questions
}
waiting-client-tools = { $count ->
    [one] { $count } outil du client
    [many] { $count } d’outils du client
   *[other] { $count } outils du client
}
waiting-budgets = { $count ->
    [one] { $count } budget
    [many] { $count } de budgets
   *[other] { $count } budgets
}
something-waits = Une réponse est attendue
nothing-waits = Rien n’attend
waits-since = { $graph }, depuis { $time }
newest-waiting = Voici les { $count } plus récents. Choisissez un graphe, une exécution ou une conversation pour en voir d’autres.
client-tool-waits = Le programme qui a apporté l’outil doit répondre.
decision-not-allowed = Une décision est attendue, que votre clé d’API ne peut pas prendre.
run-ends = L’exécution se termine.
limit-raised = La limite est augmentée.
said-allowed = Autorisé : { $tool }.
said-denied = Refusé : { $tool }.
raise-budget = Augmenter le budget
budget-reached = L’exécution a atteint son budget.
budget-spent = Elle a dépensé { $spent } et peut dépenser { $limit }.
new-limit = Nouvelle limite de l’exécution, en dollars
raise-limit = Augmenter la limite
end-run = Terminer l’exécution

## A chat in a site

agent-not-available = Cet agent n’est pas disponible ici.
part-of-sites = Cette page fait partie d’autres sites.

## Why a run did not succeed

run-failed = L’exécution n’a pas réussi.
run-failed-timeout-max_turns = Elle a atteint sa limite d’étapes. Demandez de continuer.
run-failed-rate_limit-budget = Elle a épuisé son budget. Demandez moins à la fois.
run-failed-timeout = Elle a dépassé sa limite de temps. Demandez moins à la fois.
run-failed-aborted = Arrêtée.
run-failed-rate_limit = Le fournisseur du modèle est surchargé. Réessayez dans un instant.
run-failed-insufficient_credits = Le compte n’a plus de crédit. L’exploitant peut en accorder.
run-failed-budget_reached = Un budget du compte est épuisé. L’exploitant peut l’augmenter.
run-failed-provider_unavailable = Le fournisseur du modèle est injoignable, ou rejette les requêtes de ce serveur. Réessayez dans un instant.
run-failed-provider_refused = Le fournisseur du modèle refuse les appels de ce serveur. Son exploitant doit agir.
run-failed-agent_unavailable = Le programme de l’agent a échoué sur ce serveur. Réessayez dans un instant.
run-failed-refused = Le modèle refuse d’y répondre.
run-failed-length = La réponse est plus longue que ne peut l’être un message du modèle. Demandez-la par parties.
run-failed-context = La conversation est plus longue que ce que le modèle peut lire. Commencez-en une nouvelle.
run-failed-tool_server_unavailable = Un serveur d’outils dont l’agent a besoin est injoignable. Réessayez dans un instant.
run-failed-database_unavailable = Le stockage du serveur est injoignable. Réessayez dans un instant.
run-failed-invalid_request = Le fournisseur a rejeté cette requête. Elle ou la conversation est peut-être trop longue. Raccourcissez le message, ou commencez une nouvelle conversation.
run-failed-not_found = Une ressource dont l’exécution a besoin n’existe pas.
run-failed-internal = Une erreur interne s’est produite sur le serveur. Réessayez dans un instant.

## Why a request failed

request-failed-unreachable = Le serveur est injoignable. Vérifiez votre connexion et réessayez.
request-failed-forbidden = Vous n’êtes pas autorisé à faire cela.
request-failed-no_token = Ce site ne vous a pas connecté. Connectez-vous-y, ou rechargez la page.
request-failed-token_expired = Votre connexion a expiré. Rechargez la page.
request-failed-token_refused = La connexion de ce site n’est pas acceptée ici.
request-failed-unauthenticated = { request-failed-token_refused }
request-failed-insufficient_credits = { run-failed-insufficient_credits }
request-failed-budget_reached = { run-failed-budget_reached }
request-failed-queue_full = Trop d’exécutions attendent. Réessayez dans un instant.
request-failed-session_busy = Une exécution de cette conversation n’est pas terminée. Arrêtez-la d’abord.
request-failed-session_of_other_executor = Cette conversation appartient à un autre exécuteur. Choisissez l’un de ses graphes.
request-failed-session_not_found = Cette conversation n’existe pas, ou a été supprimée.
request-failed-run_not_found = Cette exécution n’existe pas.
request-failed-graph_not_found = Ce graphe n’existe plus. Choisissez-en un autre.
request-failed-messages_not_stored = Le message n’est plus enregistré : il ne peut pas recevoir de nouvelle réponse. Réécrivez-le.
request-failed-too_many_branches = Cette conversation a autant de versions qu’elle peut en avoir. Continuez l’une d’elles, ou bifurquez.
request-failed-run_deleted = Ce que disait cette réponse a été supprimé.
request-failed-nothing_to_fork = Jusqu’ici, aucun message ne peut être copié.
request-failed-permission_decided = C’est déjà décidé.
request-failed-question_answered = La réponse a déjà été donnée, ou le délai est passé.
request-failed-run_ended = L’exécution est déjà terminée.
request-failed-shutting_down = Le serveur redémarre. Réessayez dans un instant.
request-failed-payload_too_large = Ce message est trop long.
