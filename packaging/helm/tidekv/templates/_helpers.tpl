{{- define "tidekv.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidekv.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "tidekv.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidekv.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidekv.selector" -}}
app.kubernetes.io/name: {{ include "tidekv.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidekv.labels" -}}
{{ include "tidekv.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tidekv.secretName" -}}
{{- default (include "tidekv.fullname" .) .Values.auth.existingSecret -}}
{{- end -}}

{{/* A quantity of Kubernetes ("2Gi", "1.5G", "512Mi", a number) in bytes. */}}
{{- define "tidekv.bytes" -}}
{{- $text := toString . -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "resources.limits.memory: %q is not a number with Ki, Mi, Gi, Ti, k, M, G or T" $text) -}}
{{- end -}}
{{- mulf (float64 $number) (get $units $unit) | int64 -}}
{{- end -}}

{{/* --memory, in whole KiB. */}}
{{- define "tidekv.memory" -}}
{{- $limit := required "set resources.limits.memory: --memory is a share of it" (dig "limits" "memory" "" .Values.resources) -}}
{{- $bytes := include "tidekv.bytes" $limit | int64 -}}
{{- printf "%dKiB" (div (mul (div $bytes 100) (int64 .Values.memoryPercent)) 1024) -}}
{{- end -}}
